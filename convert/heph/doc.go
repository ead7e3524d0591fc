// Package heph converts traces to and from the trace format of Heph, an actor library for Rust. [Encode]
// writes to files and to connections over TCP and UDP, and [Decode] reads from them.
//
// # The format
//
// A trace is packets one behind the other; each can be read alone. All numbers are
// big endian, a string is a u16 length and UTF-8.
//
//	Metadata { magic u32 = 0x75D11D4D; size u32; name string; value []byte }
//	Event {
//		magic u32 = 0xC1FC1FB7; size u32 // of the whole packet
//		stream u32; counter u32; substream u64
//		start u64; end u64               // nanoseconds since the epoch
//		description string
//		attributes []struct{ name string; type u8; value }
//	}
//	type: 1 u64, 2 i64, 3 f64, 4 string; with 0x80 an array: u16 count, values
//
// The one known option is epoch, a u64 of nanoseconds since 1970. It holds for the
// events behind it, the first one also for those before it. Without one it is 0.
// An event is part of those that contain it in time on its stream and substream.
//
// The source is Heph's "Trace Format", version 0.1.0, in the layout since
// 2021-03-17. Before, under the same version, events had no substream; such a
// packet is an error, where it does not happen to fit the layout of today.
//
// # What becomes what, to Heph
//
// [Encode] writes the epoch, which is the smallest start, then a packet for each
// entry of the logical view, span ends folded into their spans, in the order in
// which they end, children before parents. The stream is the resource, from 1 on, 0
// for what is below none; the substream is a lane on which events nest, the counter
// counts the packets of the stream.
//
//	name                       description, the rest of a longer one in entrace.name
//	time_unix_nano             start
//	duration_nano              end - start
//	all other attributes       under their names, sorted by them
//	id                         entrace.id u64, not counting entries that are folded
//	parent                     entrace.parent u64, where containment does not say it
//	level but Info, target     entrace.level, entrace.target, strings
//	message, module path,      entrace.message, entrace.module_path,
//	file, line                 entrace.file, strings; entrace.line u64
//
// A span below another one has parent_span_id in any case, a span and a log
// record trace_id. An entry without a time is as long as what is below it, an open
// span at least so, with entrace.open 1. What start and end say then, entrace.time
// says: start (end is no duration), both (a duration of 0) or none; without it they
// say both when they differ, else a start. A trace in which nothing has a time
// counts a nanosecond for each step of a walk through its tree.
//
// Strings, U64, I64 and floats are native, JSON arrays of numbers, strings or bools
// (otel.json) are arrays. The others are named in otel.types, a string with a JSON
// object, in the order of the attributes: bool (u64 0 or 1), bytes (base64), u128
// and i128 (decimal), bool[]; for a name that comes twice also native types. A text
// of more than 65,534 bytes goes on in name.1 and so on, and its type ends in *N for
// N parts. The attribute of a longer name is entrace.value behind entrace.key, a
// string with the name. A stored attribute whose name is one of these begins with
// entrace.attr. instead.
//
// The last packet is the root, from the epoch to the end. It has entrace.encoding 1
// and entrace.sum u64, the CRC-32C of all bytes before it, by which Decode knows
// the file for whole. A trace of nothing but a plain root is an empty file.
//
// # What becomes what, from Heph
//
// Of a file that Encode wrote and no one changed, [Decode] gives the entries that
// it was made of. Of any other, an event is a span below the smallest event that
// contains it, or below the one that parent_span_id names:
//
//	description                name
//	start + epoch              time_unix_nano U64
//	end - start                duration_nano U64; if negative 0, and otel.clock_skew_nano
//	stream, substream, counter heph.stream_id, heph.substream_id, heph.counter, U64
//	ordinal of the packet      heph.packet U64
//	u64, i64, f64, string      U64, I64, Float, String; Bytes if not UTF-8
//	array                      JSON text, named in otel.json; in otel.anyvalue with NaN
//	trace_id, span_id, …       themselves; where missing they are made, with otel.made_ids:
//	                           the ordinal + 1, SHA-256 of the first packet
//	another metadata packet,   an entry heph.option below the root with heph.name,
//	epoch too                  heph.value Bytes and heph.packet
//
// Attributes that are called as what only the packet says (time_unix_nano,
// entrace.id without being a number, …) begin with otel.attr. instead, those of the
// prefix heph. with heph.attr. Where the entry could not become the packet
// again, heph.attributes, heph.description (Bytes), heph.start and heph.end (U64)
// hold that part of it as it is: arrays, attributes that are not sorted by name,
// times beyond 64 bits. With these Encode writes the same file again, as long as
// every entry but a plain root has heph.packet, each another one; else it takes all
// of them for entries like others.
//
// # What is lost
//
// To Heph: the entries that a live recording had for ends of spans, which become
// part of the spans; the order of attributes. Nothing else.
//
// From Heph: packets that are damaged or, unless Encode wrote them, larger than 16
// MiB or of more than 65,472 attributes. With heph.attributes nothing else. A file
// that ends in a root packet with a right sum, but was not written by Encode as it
// is now, may become other bytes again.
package heph
