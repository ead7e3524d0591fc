// Package chrome writes traces as Chrome Trace Event JSON, which Perfetto, the Firefox Profiler,
// speedscope and chrome://tracing can open.
//
// The format is described in the document "Trace Event Format" of the Chromium
// project, https://chromium.googlesource.com/catapult. What is written is its
// object form, one event a line.
//
// # What becomes what
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
// Times, ts and dur, are microseconds with three decimals, counted from the first time of the trace. So
// the file has every nanosecond, and programs that read numbers as floats do not lose precision. The first
// time is base_unix_nano in otherData, in nanoseconds since 1970, as a text.
//
// A span that has not ended ends at the last time of its file, and has an argument entrace.open. What
// has no time, spans as well, is an instant at the time of its nearest ancestor with one, or at the begin of the trace.
// Entries that are not below a span, or are outside the time of their span, are on one lane per process
// called "logs". Arrows point forward in time, even if a span links to a later one.
//
// A trace without any times, as other ENTRACE writers make, gets times: each beginning, end and log record
// in the order of the tree is a microsecond after the one before it. Entries that are neither events nor
// log records then count as spans, and otherData has times "made".
//
// # Arguments
//
// In args are trace_id, span_id and parent_span_id; kind, status ("OK", "ERROR";
// absent is unset) and scope; of what is no span level, file, line, module_path and
// message; links with all that they say. Then come the attributes, by the names
// that they are stored under, with the type they have: numbers, booleans, texts,
// arrays and objects. An attribute of one of the names above is otel.attr.NAME, one
// whose name is there already NAME#2. Integers beyond 53 bits are texts, since
// readers would round them, and so are NaN and the infinities. Bytes are in base64.
//
// The Firefox Profiler gives some names a meaning of their own and does not load a
// trace where they have another. So an attribute called data is otel.attr.data, and
// events called Profile, ProfileChunk, CpuProfile, ScriptCatchup, Screenshot and
// TracingStartedInBrowser have a space behind their names.
//
// # What is lost
//
// The root and its attributes, what the recorder wrote about itself, such as
// entrace.end, the types of a resource's attributes, its schema URL, the level of
// spans and events, and what in an ENTRACE without times is a link. Whether a
// text was a number, bytes or NaN. Of a span's links all but the first 1,000; how many
// are missing is in entrace.links_left_out.
package chrome
