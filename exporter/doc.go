// Package exporter records OpenTelemetry spans and log records with an ENTRACE recorder.
//
// [New] makes an ordinary span exporter, for a span processor of the SDK. [NewSpanProcessor]
// makes a span processor that records live: a span is recorded when it starts, so that the
// file of a killed process shows what the process was doing. [NewLogProcessor] records the
// log records of OpenTelemetry's API, and of bridges to it, at once; [NewLogExporter] records
// them in batches. Recorded data survives the process; see [recorder.Durability].
// entrace.Setup wires all of this, with an endpoint and a flight recorder if they are
// configured.
//
// All exporters and processors can share a [recorder.Recorder] with package slogadapter, so that
// spans and log records are in one file, in one order. A program that logs with log/slog needs
// only slogadapter: with slogadapter and a bridge, each record is recorded twice, and a warning on
// stderr reports this.
//
// # Environment
//
// An option beats the environment, and the environment beats the default. An empty variable
// counts as unset. A value that is not understood is reported on stderr with its text and
// ignored. In the table, options whose names do not begin with With are fields for
// [WithRecorderOptions].
//
//	variable                          default                 option
//	OTEL_EXPORTER_ENTRACE_PATH        {service}-{pid}.et      WithPath, WithRecorder
//	    the file, also as a file:// URL, or a folder, in which it has its default
//	    name; {service}, {pid} and {time} expand, to
//	    the resource's service.name, made safe for a file name, the process id
//	    and the UTC time; none or -: no file, so that nothing survives the
//	    process, and nothing is recorded without an endpoint
//	OTEL_EXPORTER_ENTRACE_FORMAT      by extension, else et   Format
//	    iet, et: the format of the file after Shutdown
//	OTEL_EXPORTER_ENTRACE_VERSION     1                       Version
//	    1, 2: ENTRACE's disk version
//	OTEL_EXPORTER_ENTRACE_DURABILITY  process                 Durability
//	    process, writethrough, power, buffered: what a record survives after the call
//	    that made it has returned, see recorder.Durability
//	OTEL_EXPORTER_ENTRACE_BUFFER_DIR  –                       BufferDir
//	    the folder of the journal; by default it is in shared memory, or beside
//	    the file: see recorder.Options
//	OTEL_EXPORTER_ENTRACE_MAX_FILE_SIZE  256MiB               MaxFileSize
//	OTEL_EXPORTER_ENTRACE_MAX_AGE     0                       MaxFileAge
//	    the size, such as 64MiB, and the age, such as 5m, at which a new file begins;
//	    numbers without a unit are bytes and milliseconds, here and below, and 0 is no
//	    bound
//	OTEL_EXPORTER_ENTRACE_KEEP        50                      KeepFiles
//	OTEL_EXPORTER_ENTRACE_KEEP_BYTES  2GiB                    KeepBytes
//	    how many finished files of this service are kept in the folder, and of how many
//	    bytes together; older ones are removed, and a line on stderr says so
//	OTEL_EXPORTER_ENTRACE_REDACT      default                 Redact
//	    default, off, or a file with a policy: which values are replaced as secrets,
//	    see package redact
//	OTEL_EXPORTER_ENTRACE_WAITING_SPANS  16384                MaxWaitingSpans
//	OTEL_EXPORTER_ENTRACE_WAITING_BYTES  67108864             MaxWaitingBytes
//	OTEL_EXPORTER_ENTRACE_WAITING_AGE    60000                MaxWaitingAge
//	    how many spans wait for their parents at most, in how many bytes, and for
//	    how long
//	OTEL_GO_X_OBSERVABILITY           false                   –
//	    true: metrics of the exporter itself, an experiment of OpenTelemetry Go:
//	    otel.sdk.exporter.span.inflight, otel.sdk.exporter.span.exported, the same with
//	    log in place of span,
//	    otel.sdk.exporter.operation.duration and entrace.recorder.*, to the
//	    global MeterProvider
//
// OTEL_EXPORTER_ENTRACE_MODE, _ENDPOINT and _CONTROL are for entrace.Setup. If one of them is
// set and has no effect, that is reported.
//
// If another process of the same service was killed and left an unfinished file in the folder,
// the recorder finishes that file in the background. It recognizes the files of the same service
// by their names if the path template contains {service}, or neither {pid} nor {time}. Two
// processes do not share a path: the second process records to another name, with host, process
// id and a random part, and reports this on stderr.
//
// # What becomes of a span
//
// The entries of a trace form the tree
//
//	root
//	└─ resource           one for each distinct resource
//	   └─ span            a local root, or one whose parent is not in the file
//	      │               or has another resource
//	      ├─ link         a span link
//	      ├─ event        a span event, an entry of its own
//	      └─ span         a child
//
// and the entry of a span has
//
//	name                   the span's name
//	message                none
//	target                 the instrumentation scope's name
//	level                  Error if the status is Error, else Info
//	file, line             code.file.path, code.line.number
//	module_path            the package in code.function.name
//	trace_id               where the parent entry is not of the same trace
//	span_id                always
//	parent_span_id         where the parent entry is not that span
//	time_unix_nano         the start; U64, I64 before 1970
//	duration_nano          U64; absent: not ended; 0 with otel.clock_skew_nano
//	                       I64 if the clock ran backwards
//	otel.kind              server, client, producer, consumer, unspecified;
//	                       absent: internal
//	otel.status_code       OK, ERROR; otel.status_description beside it
//	otel.scope.version, otel.scope.schema_url, otel.scope.attr.KEY
//	trace_flags            U64, the flags of OTLP; absent: 257, sampled with a
//	                       local parent or none
//	otel.trace_state
//	otel.dropped_attributes_count, …events_count, …links_count
//
// and the span's attributes under their own names. An attribute NAME that is in the list
// above, or begins with "otel." or "entrace.", is stored as otel.attr.NAME. Bools, integers,
// floats, strings and byte slices keep their kind. Slices, maps and empty values are JSON
// texts, named in otel.json; a composite that JSON cannot hold is OTLP/JSON AnyValue text,
// named in otel.anyvalue. A string that is not UTF-8 becomes Bytes.
//
// An event is marked by otel.event; a link has otel.link.trace_id, otel.link.span_id,
// otel.link.trace_state and otel.link.flags. The entry of a resource has the name "resource",
// and service.name as its message.
//
// If a span is recorded live, its entry has the data that is known at the start. The end of
// the span is a child entry with the name "span end". This child has the span's span_id, duration
// and status, and every attribute that is new or has changed. If the span's name has changed, the
// message of the child is the new name. Package view merges the two entries.
//
// When a new file begins, open spans are written into this file again, with entrace.continued
// true. The youngest spans are written at once, in at most a quarter of the file. Any other open
// span is written, with its ids, name, kind and start, before the first entry that belongs to the
// span, such as its end. Later entries of the span go below the new entry. A view of the files
// shows one span.
//
// Some data is not kept: the number of children, which the tree shows, the parent's trace
// state, and bytes of names and keys that are not UTF-8.
//
// # What becomes of a log record
//
// The entry of a log record is a child of its span's entry, or of its resource's entry if
// there is no such span. It has
//
//	name                     "event BASENAME:LINE" by code.file.path and code.line.number, else
//	                         "event"
//	message                  the body if that is a text, else its JSON text, empty without one
//	target                   the instrumentation scope's name
//	level                    by the severity: Trace from 1, Debug from 5, Info from 9 and for 0,
//	                         Warn from 13, Error from 17
//	file, line, module_path  as of a span
//	trace_id, span_id        where the parent entry is not its span
//	time_unix_nano           the timestamp; absent if there is none
//	observed_time_unix_nano  U64; absent if it is the timestamp
//	severity_number          U64, where the level does not say it; one below 0 is stored as 1
//	severity_text            where it is not the level's name in capitals
//	otel.body                OTLP/JSON AnyValue text of a body that is not a text
//	otel.event_name
//	trace_flags              U64; absent: 1 with a span, 0 without
//	otel.scope.version, otel.scope.schema_url, otel.scope.attr.KEY
//	otel.dropped_attributes_count
//
// and the attributes as those of a span.
package exporter
