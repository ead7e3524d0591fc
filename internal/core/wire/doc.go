// Package wire reads and writes the bytes of one entry, as ENTRACE's formats store it.
// It uses only plain Go types. Package format has the public types.
//
// Numbers are little-endian and have bincode's variable length. A text is its length in bytes, followed by the
// bytes. An Option is the byte 0, or the byte 1 followed by the value.
//
//	entry {
//		parent  uint
//		message Option[text]
//		name    text
//		target  text
//		level   uint8
//		module  Option[text]
//		file    Option[text]
//		line    Option[uint]
//
//		// In version 1:
//		count   uint
//		pairs   [count]{name text; value}
//
//		// In version 2, sorted by name:
//		count   uint
//		names   [count]text
//		count   uint
//		values  [count]value
//	}
//
//	value {
//		kind uint8 // see Kind
//		data
//	}
package wire
