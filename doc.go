// Package entrace is the front door: [Setup] records the OpenTelemetry spans and the log
// records of a program, of log/slog and of OpenTelemetry, into one file, as the environment says.
//
//	p, err := entrace.Setup(ctx, entrace.WithSlogDefault())
//	if err != nil {
//		slog.Warn("no trace is recorded", "err", err)
//	}
//	defer p.Shutdown(context.WithoutCancel(ctx))
//
// What was recorded survives the process, even kill -9; see [recorder.Durability].
//
// # The house
//
//   - recorder takes entries from many goroutines and writes them to a file that survives a
//     kill; format reads and writes the formats of that file.
//   - exporter records OpenTelemetry spans and log records, slogadapter slog's records. Both write through
//     recorder.Batch, as an adapter of your own would.
//   - control is a flight recorder: it decides when what was recorded becomes a trace.
//   - remote sends and receives over the network.
//   - view shows files as spans, log records and a tree; query asks it questions.
//   - convert opens, joins and translates traces; a package below it for each foreign format.
//   - viewer is a page that shows them in a browser; cmd/entrace is the command for all of it.
//
// ARCHITECTURE.md follows a record from the call to the file and back.
//
// # Environment
//
// An option beats the environment, which beats the default. Empty is unset. A value that is
// not understood is reported on the console with its text and ignored. docs/environment.md has
// all variables on one page. What is about the
// file is in the table of package exporter; Setup reads that and
//
//	variable                          default                 option
//	OTEL_TRACES_EXPORTER              entrace                 WithSpanExporter adds to what a list may name
//	    a list: entrace, none, names given with WithSpanExporter
//	OTEL_LOGS_EXPORTER                entrace                 WithLogExporter adds to what a list may name
//	    the same for the records of OpenTelemetry's log API; WithoutLogs leaves them alone
//	OTEL_EXPORTER_ENTRACE_MODE        live                    WithMode
//	    live, batch: when spans start and when they end, or in batches when they have ended
//	OTEL_EXPORTER_ENTRACE_LEVEL       info                    WithLogLevel
//	    debug, info, warn, error or one with a number, as info+2: which log records are
//	    recorded; debug for a flight recorder
//	OTEL_EXPORTER_ENTRACE_ENDPOINT    –                       WithEndpoint
//	    tcp://host:port, tls://host:port, unix:///path or host:port, which is tcp: where
//	    entrace receive or ENTRACE takes what is recorded, beside the file; without a port
//	    6142; see package remote
//	OTEL_EXPORTER_ENTRACE_TOKEN       –                       WithEndpoint
//	    what is shown to the receiver, 16 to 256 bytes
//	OTEL_EXPORTER_ENTRACE_CONTROL     off                     WithControl
//	    off, ring, stream: a flight recorder, see package control, instead of one file: of
//	    those in package exporter only VERSION and BUFFER_DIR have an effect then. Spans
//	    that are not sampled are recorded as well
//	OTEL_EXPORTER_ENTRACE_CONTROL_CONFIG  –                   WithControl
//	    a YAML file with its configuration, which is followed: see package
//	    control/filesource; CONTROL may be unset then, as with _ON_ERROR, _ON_SLOW and
//	    _ON_HANG
//	OTEL_EXPORTER_ENTRACE_CONTROL_DIR, _RING_BYTES, _PROVIDERS, _ON_ERROR, _ON_SLOW, _ON_HANG
//	    its configuration without a file: see control.Env; the folder is {service}-traces
//	OTEL_SDK_DISABLED                 false                   –
//	    true: no spans, and a recorder that drops everything, but propagators as ever
//	OTEL_PROPAGATORS                  tracecontext,baggage    –
//	    a list of these two, or none
//
// Sizes are bytes or have a unit, as 10MB or 64MiB have; times are milliseconds or have one,
// as 5s or 1m30s. An unknown variable that begins as these do is reported.
//
// # The console
//
// What goes wrong after Setup, such as a disk that is full, and what happens to files is told
// on stderr, or to the handler that [Pipeline.LogHandler] was given, and never recorded:
// warnings and notices that begin with "entrace: ". See [WithErrorHandler] and
// [WithoutNotices].
//
// # The end of a program
//
// Shutdown finishes the file. A program that is killed leaves an IET and a crash buffer, which
// all commands read, and which the next start of the same service or 'entrace recover'
// finishes. SIGTERM, which docker stop and Kubernetes send, kills a program that does not
// handle it: catch it, say with signal.NotifyContext, and call Shutdown, or use [WithSignals].
// The trace also has what the runtime writes when a program dies of a panic: Setup calls
// debug.SetCrashOutput, see [WithoutCrashText].
//
// The SDK reads by itself: OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER,
// OTEL_TRACES_SAMPLER_ARG, OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT and the other limits, and in mode
// batch OTEL_BSP_SCHEDULE_DELAY and its like.
package entrace
