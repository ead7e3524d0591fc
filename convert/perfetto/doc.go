// Package perfetto writes traces in Perfetto's protobuf format, for the viewer at https://ui.perfetto.dev
// and for SQL queries in trace_processor.
//
// The format is described at https://perfetto.dev/docs/reference/synthetic-track-event
// and by the message definitions of Perfetto's source, protos/perfetto/trace. What
// is written is a Trace of TracePackets of one sequence, whose events are
// TrackEvents, in the order of time.
//
// # What becomes what
//
//	resource           a process track, its pid from 1 on; process_name is its
//	                   service.name, process_labels are all its attributes
//	lane               a track below it that is merged with no other. Slices on
//	                   one lane nest strictly: a span is on its parent's lane if it
//	                   can be
//	span               a beginning and an end; the category is its kind, the trace
//	                   id is also correlation_id_str
//	span event         an instant on the lane of its span, category "event"
//	log record         likewise, its message is the name; category "log"
//	link               a flow, if the other span is in the trace
//	parent elsewhere   a flow from a span to a child that is on another lane
//	other entries      as a log record, category "entry"
//
// Timestamps are nanoseconds since 1970, on the clock BOOTTIME, which trace_processor uses as its own
// clock; a clock snapshot says that it is REALTIME. If a trace begins before 1970, timestamps count from
// its beginning, without REALTIME.
//
// A span that has not ended ends at the last time of its file, and has an annotation entrace.open. What
// has no time, spans as well, is an instant at the time of its nearest ancestor with one, or at the begin of the trace.
// Entries that are not below a span, or are outside the time of their span, are on one track per process
// called "logs". Flows point forward in time, even if a span links to a later one.
//
// A trace without any times, as other ENTRACE writers make, gets times: each beginning, end and log record
// in the order of the tree is a microsecond after the one before it, from 0 on. Entries that are neither
// events nor log records then count as spans.
//
// # Annotations
//
// Debug annotations are trace_id, span_id and parent_span_id; kind, status ("OK",
// "ERROR"; absent is unset) and scope; of what is no span level, file, line,
// module_path and message; links with all that they say. Then come the attributes,
// by the names that they are stored under, with the type they have: int, double,
// bool, string, array, dictionary. An attribute of one of the names above is
// otel.attr.NAME, one whose name is there already NAME#2. Integers beyond 63 bits
// are texts, bytes are in base64, and an empty list, map or value is "[]", "{}" or
// "null".
//
// Names are interned, up to 65,536 of them and 4 MiB. Other names are written where they are used.
//
// # What is lost
//
// The root and its attributes, what the recorder wrote about itself, such as
// entrace.end, the types of a resource's attributes, its schema URL, the level of
// spans and events, and what in an ENTRACE without times is a link. Whether a
// text was bytes, or an empty list. Of a span's links all but the first 1,000; how
// many are missing is in entrace.links_left_out.
package perfetto
