// Package heph converts traces from the trace format of Heph, an actor library for Rust. [Decode] reads files, and
// connections over TCP and UDP.
//
// # The format
//
// A trace is a sequence of packets. A packet can be read without the others. Numbers are big endian. A string is a
// u16 length followed by UTF-8.
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
// The only known option is epoch, a u64 of nanoseconds since 1970. An epoch applies to the events after it. The first
// epoch also applies to the events before it. Without an epoch option, the epoch is 0. An event is a part of another
// event on the same stream and substream if the time of the other event contains its time.
//
// The source is Heph's "Trace Format", version 0.1.0, with the layout of 2021-03-17. Before this date, events of the
// same version had no substream. A packet without a substream is an error, unless it happens to fit the new layout.
//
// # Mapping
//
// [Decode] converts an event to a span. The parent is the event that parent_span_id names, or else the smallest
// event that contains the event:
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
// Attributes with reserved names (time_unix_nano, entrace.id, …) get the prefix otel.attr. Names that begin with
// heph. get the prefix heph.attr. A description that is not UTF-8 is also in heph.description (Bytes), and times beyond
// 64 bits are in heph.start and heph.end (U64).
//
// # What is lost
//
// Packets that are damaged, are larger than 16 MiB, or have more than 65,472 attributes. The order of attributes, which
// are sorted by name; the types of numbers in an array; and bytes of a name that are not UTF-8.
package heph
