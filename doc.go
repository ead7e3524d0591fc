// Package entrace is the package to start with. [Setup] records the OpenTelemetry spans of a
// program, and its log records from log/slog and from OpenTelemetry, into one file. Environment
// variables configure Setup.
//
//	p, err := entrace.Setup(ctx, entrace.WithSlogDefault())
//	if err != nil {
//		slog.Warn("no trace is recorded", "err", err)
//	}
//	defer p.Shutdown(context.WithoutCancel(ctx))
//
// Recorded data survives the process, even kill -9; see [recorder.Durability].
//
// # Packages
//
//   - recorder writes the entries of many goroutines to a file that survives a kill; format reads
//     and writes the file formats.
//   - exporter records OpenTelemetry spans and log records, slogadapter records of log/slog. Both
//     write through recorder.Batch, as an adapter of your own would.
//   - control is a flight recorder: it decides when recorded data becomes a trace.
//   - remote sends and receives traces over the network.
//   - view presents files as a tree of spans and log records; query runs queries on a view.
//   - convert opens, joins and translates traces; it has a subpackage for each foreign format.
//   - viewer serves a page that shows traces in a browser; cmd/entrace is a command for all of
//     these tasks.
//
// ARCHITECTURE.md follows a record from the call to the file and back.
//
// # Environment
//
// An option overrides the environment, and the environment overrides the default. An empty variable
// counts as unset. Setup reports an invalid value with its text on the console, and ignores it.
// docs/environment.md has all variables on one page. Setup reads the variables about the file,
// which are in the table of package exporter, and these:
//
//	variable                                  option                  default
//	OTEL_TRACES_EXPORTER                      WithSpanExporter        entrace
//	    where spans go: a list of entrace, none and names of exporters given with
//	    WithSpanExporter
//	OTEL_LOGS_EXPORTER                        WithLogExporter         entrace
//	    where records of OpenTelemetry's log API go: a list of entrace, none and names of
//	    exporters given with WithLogExporter. With the option WithoutLogs, the variable has
//	    no effect
//	OTEL_EXPORTER_ENTRACE_MODE                WithMode                live
//	    live: record spans when they start and end; batch: only when they have ended, in
//	    batches
//	OTEL_EXPORTER_ENTRACE_LEVEL               WithLogLevel            info; with a flight recorder debug
//	    the lowest level of log records that entrace records: debug, info, warn, error, or a
//	    level with an offset, such as info+2
//	OTEL_EXPORTER_ENTRACE_ENDPOINT            WithEndpoint            –
//	    tcp://host:port, tls://host:port, unix:///path or host:port: the address of entrace
//	    receive or ENTRACE, which gets a copy of all records. The default port is 6142
//	OTEL_EXPORTER_ENTRACE_TOKEN               WithEndpoint            –
//	    the token that the receiver asks for, 16 to 256 bytes
//	OTEL_EXPORTER_ENTRACE_CONTROL             WithControl             off
//	    ring: a flight recorder, which writes a file when a trigger fires; stream: a flight
//	    recorder that also writes everything to a file
//	OTEL_EXPORTER_ENTRACE_CONTROL_CONFIG      WithControl             –
//	    a YAML file instead of the CONTROL variables below; the flight recorder reads it
//	    again when it changes
//	OTEL_EXPORTER_ENTRACE_CONTROL_DIR         WithControl             {service}-traces
//	    the flight recorder's folder
//	OTEL_EXPORTER_ENTRACE_CONTROL_RING_BYTES  WithControl             32MiB
//	    the size of the ring: memory in which new data replaces the oldest
//	OTEL_EXPORTER_ENTRACE_CONTROL_PROVIDERS   WithControl             spans,logs,runtime.metrics,gc
//	    what the flight recorder records
//	OTEL_EXPORTER_ENTRACE_CONTROL_EXEC_TRACE  WithControl             0
//	    1: also record Go's execution trace, which says what goroutines waited for
//	OTEL_EXPORTER_ENTRACE_CONTROL_ON_ERROR    WithControl             30s
//	    a log record at level ERROR makes the flight recorder write a file, at most once a
//	    minute. The file begins this much time before the record; off: no file
//	OTEL_EXPORTER_ENTRACE_CONTROL_ON_SLOW     WithControl             off
//	    a span that took longer than this makes the flight recorder write a file
//	OTEL_EXPORTER_ENTRACE_CONTROL_ON_HANG     WithControl             off
//	    a span that is open for longer than this makes the flight recorder write a file,
//	    even if it is meant to last, such as a stream of events. A configuration file can
//	    name the spans
//	OTEL_EXPORTER_ENTRACE_CRASH_LABELS        –                       on
//	    on: with a flight recorder, Setup adds tracebacklabels=1 to GODEBUG, so that the
//	    text of a crash names the spans of goroutines. Child processes inherit GODEBUG.
//	    Setup changes nothing if GODEBUG has tracebacklabels already, or if it is the
//	    default, as in a module of Go 1.27. off: Setup never changes GODEBUG
//	OTEL_EXPORTER_ENTRACE_RUN                 –                       –
//	    entrace run sets this variable for the command that it starts. Setup then does not
//	    report unknown names in OTEL_TRACES_EXPORTER and OTEL_LOGS_EXPORTER, because SDKs of
//	    other languages may know them
//	OTEL_SDK_DISABLED                         –                       false
//	    true: entrace records nothing, but the propagators work
//	OTEL_PROPAGATORS                          –                       tracecontext,baggage
//	    how spans reach other services: a list of these two, or none
//	OTEL_TRACES_SAMPLER                       WithSampler             parentbased_always_on
//	    a sampler of OpenTelemetry's SDK; a flight recorder records all spans nevertheless
//	OTEL_TRACES_SAMPLER_ARG                   WithSampler             –
//	    the argument of the sampler, such as 0.1
//
// A size without a unit is in bytes; 10MB and 64MiB have a unit. A time without a unit is in
// milliseconds; 5s and 1m30s have a unit. Setup reports unknown variables that begin with
// OTEL_EXPORTER_ENTRACE_.
//
// A flight recorder (package control) also records spans that are not sampled. The names of
// variables in this paragraph lack their prefix OTEL_EXPORTER_ENTRACE_. Of the variables about the
// file, only VERSION, BUFFER_DIR and REDACT affect it. If CONTROL is unset, CONTROL_CONFIG,
// CONTROL_EXEC_TRACE, CONTROL_ON_ERROR, CONTROL_ON_SLOW and CONTROL_ON_HANG turn the flight
// recorder on; see [control.Env]. Package control/filesource describes the file that CONTROL_CONFIG
// names.
//
// # The console
//
// After Setup, this module reports errors, such as a full disk, as warnings, and changes of files
// as notices. Warnings and notices begin with "entrace: " and go to stderr, or to the handler that
// the program passed to [Pipeline.LogHandler]. This module never records them. See
// [WithErrorHandler] and [WithoutNotices].
//
// # The end of a program
//
// Shutdown finishes the file. A killed program leaves an unfinished file (IET) and a journal. All
// commands can read these two files, and the next start of the same service, or 'entrace recover',
// makes a finished file from them. SIGTERM, which docker stop and Kubernetes send, kills a program
// that does not handle the signal. So use [WithSignals], or catch the signal, for example with
// signal.NotifyContext, and call Shutdown. If a program dies of a panic, the trace also contains
// the text that the runtime writes, because Setup calls debug.SetCrashOutput; see
// [WithoutCrashText]. The runtime writes this text after deferred calls. So if a panic runs a
// deferred Shutdown, Shutdown only flushes, and does not finish the file.
//
// OpenTelemetry's SDK itself reads OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES,
// OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT and the other limits, and in mode batch OTEL_BSP_SCHEDULE_DELAY
// and the other OTEL_BSP variables.
package entrace
