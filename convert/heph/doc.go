// Package heph converts traces to and from the trace format of Heph, an actor library for Rust. [Encode]
// writes to files and to connections over TCP and UDP, and [Decode] reads from them.
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
// The only known option is epoch, a u64 of nanoseconds since 1970. An epoch applies to the events after it. The
// first epoch also applies to the events before it. Without an epoch it is 0. An event is a part of another event
// if the other one, on the same stream and substream, contains its time.
//
// The source is Heph's "Trace Format", version 0.1.0, with the layout of 2021-03-17. Before this date, events of
// the same version had no substream. Such a packet is an error, except if it happens to fit the new layout.
//
// # Mapping to Heph
//
// [Encode] writes the epoch, which is the smallest start, and then a packet for each row of the view except the
// root. Packets are in the order in which the rows end, so children come before parents. The stream is the number
// of the resource, from 1 on, or 0 for rows without a resource. The substream is a lane on which events nest. The
// counter numbers the packets of a stream.
//
//	message, else name         description
//	start, duration            start, end; an open span ends with the last time in its files
//	level but Info, target,    level, target, module_path, file, strings; line u64
//	module path, file, line
//	trace                      trace_id
//	the parent span            parent_span_id, for all rows, also for log records and events
//	String, Float, U64, I64    string, f64, u64, i64
//	JSON arrays (otel.json)    arrays, if all values are texts, integers or floats; else their text
//	Bool, U128, I128           strings
//	Bytes                      strings, base64
//
// Attributes are sorted by name. A resource is as long as the trace. Any other row without a time begins and ends
// when its parent begins.
//
// If Decode made the rows from a file, Encode restores the packets of this file. It needs an attribute heph.packet
// in every entry except the root and the end that a conversion to an ET added, each with a different value. Otherwise
// it encodes the rows like other rows.
//
// # Mapping from Heph
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
// heph. get the prefix heph.attr. If a part of the packet cannot be restored from the entry, the original of this
// part is in heph.attributes or heph.description (Bytes), or in heph.start and heph.end (U64). Such parts are
// arrays, attributes that are not sorted by name, and times beyond 64 bits.
//
// # What is lost
//
// To Heph: which rows are log records, events, links or resources, because all become events; the name of a row
// that has a message; types that Heph does not have; which spans were open; the root; the rest of a text or name
// after 65,534 bytes; times before 1970 and after 2262.
//
// From Heph: packets that are damaged, are larger than 16 MiB, or have more than 65,472 attributes. Because of
// heph.attributes, nothing else is lost.
package heph
