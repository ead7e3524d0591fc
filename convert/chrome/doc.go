// Package chrome writes traces as Chrome Trace Event JSON, which Perfetto, the Firefox Profiler,
// speedscope and chrome://tracing can open.
//
// The format is described in the document "Trace Event Format" of the Chromium project,
// https://chromium.googlesource.com/catapult. The package writes the variant whose top level is an object, with one
// event per line.
//
// # Mapping
//
//	resource           pid, from 1 on; process_name is its service.name,
//	                   process_labels all its attributes as a text
//	lane               tid, from 1 on, with a thread_name. Events on one lane nest
//	                   strictly: a span is on its parent's lane if it can be
//	span               X; cat is its kind
//	span event         i of scope t, on the lane of its span; cat "event"
//	log record         likewise, its message is the name; cat "log"
//	link               s and f, named "link", if the other span is in the trace
//	parent elsewhere   s and f, named "child", from a span to a child that is on
//	                   another lane
//	other entries      as a log record; cat "entry"
//
// Times, ts and dur, are microseconds with three decimals, counted from the first time of the trace. So times are
// exact to the nanosecond, even if a program reads numbers as floats. The first time itself is base_unix_nano in
// otherData, in nanoseconds since 1970, as a text.
//
// A span that has not ended ends at the last time of its file, and has an argument entrace.open. A span or another
// entry without a time is an instant at the time of its nearest ancestor with a time, or else at the start of the
// trace. An entry that is not below a span, or is outside the time of its span, is on the process's only lane called
// "logs". Arrows point forward in time, even if a span links to a later span.
//
// Other ENTRACE writers make traces without any times. Such a trace gets times: in the order of the tree, each
// beginning, end and log record is a microsecond after the previous one. Entries that are neither events nor log
// records then count as spans, and times in otherData is "made".
//
// # Arguments
//
// The object args begins with trace_id, span_id and parent_span_id; then kind, status ("OK", "ERROR"; absent if
// unset) and scope; then level, file, line, module_path and message of everything except spans; then links with all
// their fields. The attributes follow, under their stored names and with their types: numbers, booleans, texts,
// arrays and objects. If an attribute has one of the names above, it is written as otel.attr.NAME. If several
// attributes have the same name, the second is written as NAME#2. Integers beyond 53 bits are texts, because
// readers would round them. NaN and the infinities are also texts. Bytes are in base64.
//
// The Firefox Profiler reserves some names, and does not load a trace that uses these names for something else. So an
// attribute called data is written as otel.attr.data, and a space is added to the names of events called Profile,
// ProfileChunk, CpuProfile, ScriptCatchup, Screenshot and TracingStartedInBrowser.
//
// # What is lost
//
// Lost are the root and its attributes; entries that the recorder wrote about itself, such as entrace.end; the types
// of a resource's attributes and its schema URL; and the level of spans and events. A reader cannot see whether a
// text was a number, bytes or NaN. In a trace without times, it cannot see which entries are links. Only the first
// 1,000 links of a span are written; entrace.links_left_out is the number of further links.
package chrome
