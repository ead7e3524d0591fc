// Package perfetto writes traces in Perfetto's protobuf format, for the viewer at https://ui.perfetto.dev
// and for SQL queries in trace_processor.
//
// The format is described at https://perfetto.dev/docs/reference/synthetic-track-event and by the message
// definitions of Perfetto's source, protos/perfetto/trace. The output is a Trace of TracePackets of one sequence.
// Its events are TrackEvents, ordered by time.
//
// # Mapping
//
//	resource           a process track, its pid from 1 on; process_name is its
//	                   service.name, process_labels are all its attributes
//	lane               a track below it that is never merged with another. Slices on
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
// Timestamps are nanoseconds since 1970, on the clock BOOTTIME, which is the default clock of trace_processor. A
// clock snapshot equates BOOTTIME with REALTIME. If a trace begins before 1970, timestamps are relative to its
// beginning, and the snapshot has no REALTIME.
//
// A span that has not ended ends at the last time of its file, and has an annotation entrace.open. A span or
// another entry without a time is an instant at the time of its nearest ancestor that has one, or else at the start
// of the trace. An entry that is not below a span, or is outside the time of its span, is on a track called "logs",
// of which a process has one. Flows point forward in time, even if a span links to a later span.
//
// Other ENTRACE writers make traces without any times. Such a trace gets times: in the order of the tree, each
// beginning, end and log record is a microsecond after the previous one, from 0 on. Entries that are neither events
// nor log records then count as spans.
//
// # Annotations
//
// Debug annotations begin with trace_id, span_id and parent_span_id; then kind, status ("OK", "ERROR"; absent if
// unset) and scope; then level, file, line, module_path and message of everything except spans; then links with all
// their fields. The attributes follow, under their stored names and with their types: int, double, bool, string,
// array, dictionary. If an attribute has one of the names above, it is written as otel.attr.NAME. If several
// attributes have the same name, the second is written as NAME#2. Integers beyond 63 bits are texts, bytes are in
// base64, and an empty list, map or value is "[]", "{}" or "null".
//
// Names are interned: defined once, and then referred to by number. Beyond 65,536 names or 4 MiB, names are written
// where they are used.
//
// # What is lost
//
// Lost are the root and its attributes; entries that the recorder wrote about itself, such as entrace.end; the
// types of a resource's attributes and its schema URL; and the level of spans and events. A reader cannot see
// whether a text was bytes or an empty list. In a trace without times, it cannot see which entries are links. Only
// the first 1,000 links of a span are written; entrace.links_left_out is the number of the others.
package perfetto
