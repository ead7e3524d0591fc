// Package exporter records OpenTelemetry spans and log records with an ENTRACE recorder.
//
// [New] returns an ordinary span exporter, for a span processor of the SDK. [NewSpanProcessor]
// returns a span processor that records live: it records a span when the span starts, so that the
// file of a killed process shows what the process was doing. [NewLogProcessor] returns a log
// processor that immediately records the log records of OpenTelemetry's API, and of bridges to it;
// the exporter of [NewLogExporter] records them in batches. Recorded data survives the process;
// see [recorder.Durability]. entrace.Setup calls the functions that a program needs. It also
// creates a sender to an endpoint and a flight recorder, if they are configured.
//
// All exporters and processors can share a [recorder.Recorder] with package slogadapter, so that
// spans and log records are in one file, in one order. A program that logs with log/slog needs
// only slogadapter. With slogadapter and a bridge, each record would be in the file twice, and a
// warning on stderr reports this.
//
// # Environment
//
// An option overrides the environment, and the environment overrides the default. An empty
// variable counts as unset. This package reports an invalid value with its text on stderr, and
// ignores it. In the table, options whose names do not begin with With are fields for
// [WithRecorderOptions]. A size without a unit is in bytes; 64MiB has a unit. A time without a
// unit is in milliseconds; 5m has a unit.
//
//	variable                                  option                  default
//	OTEL_EXPORTER_ENTRACE_PATH                WithPath, WithRecorder  {service}-{pid}.et
//	    the path or the file:// URL of the file, or of a folder (traces/), in which the file
//	    gets the default name. entrace replaces {service} by the percent-encoded name of the
//	    service, {pid} by the process id, and {time} by the UTC time of the start. none or
//	    -: no file. Then no record survives the process, and without an endpoint, entrace
//	    records nothing
//	OTEL_EXPORTER_ENTRACE_FORMAT              Format                  by the extension, else et
//	    et or iet: the format of the file after Shutdown
//	OTEL_EXPORTER_ENTRACE_VERSION             Version                 1
//	    1 or 2: the version of ENTRACE's file format
//	OTEL_EXPORTER_ENTRACE_BUFFER_DIR          BufferDir               shared memory, or the folder of the file
//	    the folder of the crash buffer, which has the newest records of a killed process
//	OTEL_EXPORTER_ENTRACE_DURABILITY          Durability              process
//	    which failures a record survives once the recording call has returned: process,
//	    writethrough, power (docs/durability.md)
//	OTEL_EXPORTER_ENTRACE_REDACT              Redact                  default
//	    which secrets entrace replaces: default, off, or a file with a policy
//	    (docs/redaction.md)
//	OTEL_EXPORTER_ENTRACE_WAITING_SPANS       MaxWaitingSpans         16384
//	    the maximum number of spans that wait for their parents
//	OTEL_EXPORTER_ENTRACE_WAITING_BYTES       MaxWaitingBytes         64MiB
//	    the maximum size of the waiting spans
//	OTEL_EXPORTER_ENTRACE_WAITING_AGE         MaxWaitingAge           60s
//	    the maximum time that a span waits for its parent
//	OTEL_EXPORTER_ENTRACE_MAX_FILE_SIZE       MaxFileSize             256MiB
//	    the recorder begins a new file when a file reaches this size; 0: no limit
//	OTEL_EXPORTER_ENTRACE_MAX_AGE             MaxFileAge              0
//	    the recorder begins a new file when a file reaches this age; 0: no limit
//	OTEL_EXPORTER_ENTRACE_KEEP                KeepFiles               50
//	    when the recorder begins a new file, it removes the oldest finished files of the
//	    service in the folder until this number is left; the new file does not count. A line
//	    on stderr names the removed files. 0: no limit
//	OTEL_EXPORTER_ENTRACE_KEEP_BYTES          KeepBytes               2GiB
//	    when the recorder begins a new file, it removes the oldest finished files until the
//	    total size of the rest is at most this size; 0: no limit
//
// OTEL_EXPORTER_ENTRACE_MODE, _ENDPOINT and _CONTROL are for entrace.Setup. If one of them is set
// but the program does not call Setup, a message on stderr says that it has no effect.
//
// If another process of the same service was killed and left an unfinished file in the folder, the
// recorder finishes that file in the background. It recognizes the files of the same service by
// their names if the path template contains {service}, or neither {pid} nor {time}. Two processes
// never write to the same file. If another process already writes to the file, the recorder adds
// the host, the process id and a random part to the name, and reports this on stderr.
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
//	trace_id               if the parent entry has another trace id
//	span_id                always
//	parent_span_id         if the parent entry is not the entry of the parent span
//	time_unix_nano         the start; U64, I64 before 1970
//	entrace.time           the start, RFC 3339, if it is before 1678 or after 2262; also on
//	                       events and log records
//	duration_nano          U64; absent: not ended
//	otel.clock_skew_nano   I64, the negative duration, if the span ends before it begins;
//	                       duration_nano is then 0
//	otel.kind              server, client, producer, consumer, unspecified;
//	                       absent: internal
//	otel.status_code       OK, ERROR
//	otel.status_description
//	otel.scope.version, otel.scope.schema_url, otel.scope.attr.KEY
//	trace_flags            U64, the flags of OTLP; absent: 257, that is, sampled, and
//	                       the parent is local or absent
//	otel.trace_state
//	otel.dropped_attributes_count, …events_count, …links_count
//
// and the span's attributes under their own names. An attribute NAME that is in the list above, or
// begins with "otel." or "entrace.", is stored as otel.attr.NAME. Bools, integers, floats, strings
// and byte slices keep their kind. A slice, a map or an empty value becomes JSON text, and the
// attribute otel.json lists the attribute's name. If JSON cannot represent a slice or a map, the
// value becomes OTLP/JSON AnyValue text, and otel.anyvalue lists the attribute's name. A string
// that is not UTF-8 becomes Bytes.
//
// The entry of an event has the attribute otel.event. The entry of a link has otel.link.trace_id,
// otel.link.span_id, otel.link.trace_state and otel.link.flags. The entry of a resource has the
// name "resource", and service.name as its message.
//
// If a span is recorded live, its entry has the data that is known at the start. The end of the
// span is a child entry with the name "span end". This child has the span's span_id, duration and
// status, and every attribute that was added or changed after the start. If the span's name has
// changed, the message of the child is the new name. Package view merges the two entries.
//
// When a new file begins, the recorder writes open spans to this file again, with
// entrace.continued true. It writes the youngest spans immediately, in at most a quarter of the
// file. It writes any other open span, with its ids, name, kind and start, before the first entry
// that belongs to the span, such as the span's end. Later entries of the span are children of the
// new entry. A view of the files shows one span.
//
// An entry does not have the number of children (the tree shows it), the parent's trace state, or
// bytes of names and keys that are not UTF-8.
//
// # What becomes of a log record
//
// The entry of a log record is a child of its span's entry, or of its resource's entry if the
// record has no span or the span is not in the file. It has
//
//	name                     "event BASENAME:LINE" from code.file.path and code.line.number, or
//	                         "event" without them
//	message                  the body if it is a string, else the body as JSON; empty without a body
//	target                   the instrumentation scope's name
//	level                    from the severity: Trace from 1, Debug from 5, Info from 9 and for 0,
//	                         Warn from 13, Error from 17
//	file, line, module_path  as for a span
//	trace_id, span_id        if the parent entry is not the record's span
//	time_unix_nano           the timestamp; absent if there is none
//	observed_time_unix_nano  U64; absent if it equals the timestamp
//	severity_number          U64, if the level does not imply it; a negative one is stored as 1
//	severity_text            if it is not the level's name in capitals
//	otel.body                a body that is not a string, as OTLP/JSON AnyValue text
//	otel.event_name
//	trace_flags              U64; absent: 1 with a span, 0 without
//	otel.scope.version, otel.scope.schema_url, otel.scope.attr.KEY
//	otel.dropped_attributes_count
//
// and the attributes, stored like those of a span.
package exporter
