// Package chrome writes traces as Chrome Trace Event JSON, which Perfetto, the Firefox Profiler,
// speedscope and chrome://tracing can open.
//
// The format is described in the document "Trace Event Format" of the Chromium project,
// https://chromium.googlesource.com/catapult. The package writes the object form, with one event per line.
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
// Times, ts and dur, are microseconds with three decimals, counted from the first time of the trace. So the
// file has every nanosecond, and programs that read numbers as floats do not lose precision. The first time is
// base_unix_nano in otherData, in nanoseconds since 1970, as a text.
//
// A span that has not ended ends at the last time of its file, and has an argument entrace.open. Anything
// without a time, including a span, is an instant at the time of its nearest ancestor with a time, or at the
// start of the trace. Entries that are not below a span, or are outside the time of their span, are on one lane
// per process called "logs". Arrows point forward in time, even if a span links to a later one.
//
// A trace without any times, as other ENTRACE writers make, gets times: in the order of the tree, each
// beginning, end and log record is a microsecond after the previous one. Entries that are neither events nor
// log records then count as spans, and otherData has times "made".
//
// # Arguments
//
// The object args begins with trace_id, span_id and parent_span_id; then kind, status ("OK", "ERROR"; absent if
// unset) and scope; then level, file, line, module_path and message of everything except spans; then links with
// all their fields. The attributes follow, under their stored names and with their types: numbers, booleans,
// texts, arrays and objects. An attribute whose name is one of the names above is written as otel.attr.NAME. An
// attribute whose name is already used is written as NAME#2. Integers beyond 53 bits are texts, since readers
// would round them, and so are NaN and the infinities. Bytes are in base64.
//
// The Firefox Profiler reserves some names, and does not load a trace that uses them for something else. So an
// attribute called data is written as otel.attr.data, and a space is appended to the names of events called
// Profile, ProfileChunk, CpuProfile, ScriptCatchup, Screenshot and TracingStartedInBrowser.
//
// # What is lost
//
// Lost are the root and its attributes, entries that the recorder wrote about itself, such as entrace.end, the
// types of a resource's attributes and its schema URL, the level of spans and events, and which entries are
// links in a trace without times. Also lost is whether a text was a number, bytes or NaN. Of the links of a
// span only the first 1,000 are written; the number of missing links is in entrace.links_left_out.
package chrome
