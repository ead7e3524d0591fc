// Package control is a flight recorder for OpenTelemetry spans, log/slog records and the metrics of Go's runtime. It
// records continuously, writes a trace when something of interest happens, and can be reconfigured while it runs. Its
// architecture is modeled on Profilo, Facebook's tracer.
//
//	ctl, err := control.New(&control.Options{
//		Source:    filesource.New("control.yaml", nil), // or Env, or a Config
//		Providers: provider.All(),
//	})
//	…
//	p, err := entrace.Setup(ctx, entrace.WithControl(ctl))
//	slog.SetDefault(slog.New(p.LogHandler(nil))) // to stderr and to the ring
//	mux.Handle("/debug/entrace/", http.StripPrefix("/debug/entrace", httpapi.New(ctl, nil)))
//
// Package entrace does all of this if environment variables ask for it.
//
// # Glossary
//
//   - A trace is a file with the records of a period of time in the process.
//   - A request reports an event in the process, and asks for a trace: see [Request].
//   - A trigger makes requests: a log record, a slow span, a span that does not end, a signal, an HTTP
//     call, a panic, start and exit of the process, or the application, see [Control.Fire].
//   - A configuration describes kinds of traces. For each kind, it says which requests become such a trace, which
//     providers record to it, how long it is, how often one is made, and whether it is kept: see [Config]. A running
//     trace keeps its configuration even if a new one is set.
//   - A source supplies configurations: see [Source].
//   - A provider records one kind of data, such as spans. Providers are bits in a [Set]. The check whether a provider
//     is on is one atomic load.
//   - The ring is a buffer of fixed size in which new records replace the oldest records. It is in a file that
//     outlives the process.
//   - A snapshot is a trace of the records that are in the ring; the ring continues to record. A stream is
//     a trace of the records from its start on.
//   - A verdict says whether a request became a trace, and if not, why. [Control.Stats] counts the verdicts.
//
// # What can wait for a file
//
// The goroutine that makes a request continues immediately, because the decision whether to make a trace uses no file
// and calls no provider. Goroutines of the control do the slow work. So a disk that does not respond, or a provider
// that blocks, delays only traces: [Control.Stop] and [Control.SetConfig] return immediately, and the channel of
// [Trace.Done] is closed when a file is finished. Only [Control.Start] waits until the file of a snapshot is written.
// An event is recorded before it causes a request, so the event is in the trace. Several requests for one trace that
// has not begun count as one. If there is no ring and no stream runs, the control drops records, and each costs one
// atomic load.
//
// # Spans and their goroutines
//
// The goroutine on which a span begins gets the labels span_id and trace_id until the span ends. This happens in two
// cases: for all spans while a CPU profile runs, and for spans that begin a local trace if a kind of trace in the
// configuration has the provider goroutines. The control keeps labels that are in the context, for example from
// pprof.Do; labels that were set without a context are lost. If a span ends on another goroutine, that goroutine gets
// the labels from before the span.
//
// # The files
//
// Traces are files DATE-HOST-PID-SEQ-NAME.et in the folder of the configuration. Only the user can read them. DATE is
// UTC with microseconds, so that names sort by time. NAME is the name of the trace in the configuration. If the trace
// was requested manually, an m follows SEQ. Until a trace is finished, it is an IET of the same name with a crash
// buffer next to it. If the control cannot finish the trace, for example because the disk is full, both files stay
// and the verdict is [VerdictUnfinished]. A later trace, the next start, or "entrace recover DIR" then finishes the
// trace. [Keep] limits the size of the folder.
//
// The first entry below the root is entrace.trace:
//
//	time_unix_nano     when the trace was requested
//	trigger, key, reason
//	                   what requested it. The reason names the request, that is, the span that
//	                   began the local trace, if it is open, and the trace id. If a snapshot is for
//	                   a span that does not end, the reason also has the place where the span's
//	                   goroutine waits
//	request.trace_id, request.span_id, request.took_nano, request.attr.KEY
//	                   the span of the request, how long it took, the request's attributes
//	config.id, config.name, mode, providers
//	                   the configuration, the trace's name and mode in it, and the trace's providers
//	process.pid, host.name
//	                   the process; several traces of a process can contain the same entries
//	manual             Bool true: requested by hand
//	window.asked_nano, window.got_nano
//	                   for a snapshot: the length of the requested window, and of the window that it has
//	evicted            how many entries of the requested window the ring had
//	                   overwritten before the snapshot
//	dropped.REASON     how many entries the recorder has dropped since it began
//
// Below entrace.trace are the entries of providers that belong to no span, an entry "provider off" with
// provider and error for each provider that failed, and, as the last entry of a stream, "trace end" with
// end.reason (stopped, timeout, max_bytes, shutdown), duration_nano and dropped.REASON.
//
// A span that began before the window is in the trace if it was still open when the window began. If the
// ring has overwritten the start of a span, the later entries of the span are below the resource, with the
// ids of the span.
//
// # After a crash
//
// While the process lives, it holds a lock on its ring. The ring is in [Options].BufferDir, if it is set. If not, the
// ring is in shared memory, if shared memory survives the process, or else in the folder of the traces. The file
// ring-HOST-PID-DATE.ring in this folder is the ring itself, or a text file with the path of the ring. If shared
// memory is short, the ring is smaller, and the flight recorder reports this; if there is room for less than 8 MiB,
// the ring is in the folder.
//
// The next control that uses the folder, or "entrace recover DIR", converts the rings of dead processes to
// DATE-HOST-PID-0001-crash.et. DATE is the time of the last record. The entry "crash", below entrace.trace, has the
// text that the runtime wrote when the process died. If GODEBUG has tracebacklabels=1, which entrace.Setup sets, the
// runtime writes the labels of goroutines, and so the ids of their spans. Entries "goroutines" below these spans have
// the stacks. If the span of the goroutine that panicked is open, an event "exception" marks the span as failed.
// Without the labels, the span is unknown, so no span is marked. A span that ends while the panic unwinds the stack
// has an event "exception", with or without labels.
//
// The ring survives every death of a process: a panic, a fatal error of the runtime, os.Exit, SIGKILL, or the
// kernel's OOM killer. After a loss of power, records may be missing. The control removes a ring when the ring's
// trace is on disk. If it cannot read a ring, or convert it to a trace, it keeps the ring and reports the error. It
// renames a ring of another version of this package to NAME.broken. A ring in shared memory is lost when the machine
// restarts; the next control reports the loss once. In a container, the folder must be on a volume that outlives the
// container. In shared memory, the ring counts as memory; elsewhere, the kernel writes the ring to disk about every
// 30 seconds.
package control
