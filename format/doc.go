// Package format reads, writes and checks traces in the two file formats of ENTRACE, a Rust project; its API may change
// until v0.2. An IET is a stream to which a program can easily append. An ET has a table of offsets
// and the tree in front of the same bytes, and is designed for memory mapping.
//
// # Writing
//
// A [Writer] writes one existing entry after the other. [Finalize] makes an ET from an IET. To record what a
// program does, use package recorder.
//
// # Reading
//
//   - [Open] gives random access to a finished or growing file: entries by id, children, parents, single attributes.
//     Package view adds the logical view, in which a span looks the same no matter how it was recorded.
//   - [NewReader] reads entries in order from any stream, for example a pipe.
//   - [Follow] reads a file that is still growing.
//   - [File.Report] says how many entries of a damaged file are complete, and why they end. [File.Verify] lists every
//     fault. Package recorder's Recover saves the complete entries.
//
// If a program is killed, the entries that it had not yet written to its file are in its
// journal. Package recorder's Open reads both.
//
// # Terminology
//
// A trace is the content of a whole file. An entry is one stored unit: a span,
// an event, a log record, a resource. An entry's id is its ordinal in the file; the
// root has id 0. A parent is always an earlier entry.
//
// # The layout
//
// Every file begins with these ten bytes:
//
//	magic   "\0ENTRACE"  8 bytes
//	version u8           1 or 2
//	format  u8           0 ET, 1 IET, 2 IETPrefix
//
//	IET       = magic, entry*
//	IETPrefix = magic, (length u64 fixed little endian, entry)*
//	ET        = magic, offsets []uint64, pool []PoolEntry, entry*
//
// There is one offset for each entry, ascending. Offsets count from the end of the pool.
// The pool has one PoolEntry for each entry: the ids of its children, ascending.
//
// Everything else is bincode in its standard configuration:
//
//	unsigned, lengths, variants  0..250 one byte; 251, 252, 253, 254 and then
//	                             2, 4, 8, 16 bytes, little endian; 255 invalid
//	signed                       zigzag, then as unsigned
//	bool, u8                     one byte
//	f64                          eight bytes, IEEE 754, little endian
//	string, []byte, []T          length, then the bytes or items
//	Optional                     0, or 1 and the value
//
//	TraceEntry {
//		parent   u32          an earlier entry; the root's is 0
//		message  Optional string
//		metadata {
//			name        string
//			target      string
//			level       0 Trace, 1 Debug, 2 Info, 3 Warn, 4 Error
//			module_path Optional string
//			file        Optional string
//			line        Optional u32
//		}
//		version 1: attributes  []struct{ name string; value EnValue }
//		version 2: attr_names  []string, sorted bytewise
//		           attr_values []EnValue, as many
//	}
//	EnValue = variant u32: 0 String, 1 Bytes, 2 Bool, 3 Float f64, 4 U64, 5 I64,
//	          6 U128, 7 I128; then the value
//	PoolEntry { children []u32 }
//
// Writers write the shortest form of a number; readers accept longer ones. The entries have no framing and no
// checksum. If the writer died, a file may end within an entry. Decoders never return a part of an entry. If a file
// ends with zero bytes, they are the result of a crash. Decoders return no entries from these bytes, although ten
// zero bytes are a valid encoding of an entry.
//
// The layout follows ENTRACE's own description and its published crate entrace_core: release 0.1.3 reads and
// writes version 1, release 0.2.0 version 2.
package format
