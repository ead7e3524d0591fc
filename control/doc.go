// Package control is a flight recorder for OpenTelemetry spans, log/slog
// records and the metrics of Go's runtime. It records all the time, keeps what matters, and can be
// configured anew while it runs. Its architecture is that of Profilo, Facebook's tracer.
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
// Package entrace does all of this from environment variables.
//
// # Glossary
//
//   - A trace is a file with a window of what happened in the process.
//   - A request says that something happened: see [Request].
//   - A trigger makes requests: a log record, a slow span, a span that does
//     not end, a signal, an HTTP call, a panic, start and exit of the process, or
//     the application, see [Control.Fire].
//   - A configuration has the kinds of traces: which requests they are
//     for, which providers record to them, how long, how often, and which are kept in the
//     end: see [Config]. It decides whether a request becomes a trace, and which one. A
//     trace keeps the configuration that it began with.
//   - A source supplies configurations: see [Source].
//   - A provider records a part of the data. Providers are bits in a
//     [Set], and asking whether one is on is one atomic load.
//   - The ring is memory that is reused. It holds the last minutes, or as much as
//     fits, in a file that outlives the process.
//   - A snapshot is a trace of the records in the ring, which records on. A stream is a trace
//     of the records from its start on.
//   - A verdict says whether a request became a trace, or why not. They are counted:
//     see [Control.Stats].
//
// # What may wait for a file
//
// The goroutine that makes a request goes on at once: a decision uses no file and calls
// no provider. What takes time is done by goroutines of the control, so that a disk that
// does not answer, or a dumper that blocks, holds up traces and nothing else: [Control.Stop],
// [Control.SetConfig] and [Control.Override] return at once, and [Trace.Done] says when a
// file is finished. A request comes after what caused it was recorded, so that this is in the
// trace. Many requests for a trace that has not begun are one. With no ring and no stream
// nothing is recorded, and costs an atomic load.
//
// # Spans and their goroutines
//
// While the processor is profiled, and for spans that begin a local trace whenever
// a trace of the configuration looks at goroutines, the goroutine in which a span
// begins gets the labels span_id and trace_id, until the span ends. Labels that came
// with the context, of pprof.Do say, stay; those that were set without it are lost.
// A span that ends on another goroutine gives the labels back there.
//
// # The files
//
// Traces are files DATE-HOST-PID-SEQ-NAME.et in the folder of the configuration,
// readable by the user alone: DATE is UTC, to the microsecond, so that names sort by
// time; NAME is the trace's in the configuration; SEQ has an m behind it for what
// was asked for by hand. Until it is finished a trace is an IET of the same name, with
// its crash buffer beside it. If it cannot be finished, for example because the
// disk is full, both stay and the verdict is [VerdictUnfinished]: a later trace, the next
// start, or "entrace recover DIR" finishes it. [Keep] bounds the folder.
//
// The first entry below the root is entrace.trace:
//
//	time_unix_nano     when it was asked for
//	trigger, key, reason
//	                   what asked for it; the reason names the request, which is the span that
//	                   began the local trace, if it is open, and the trace id; of a snapshot for
//	                   a span that does not end, the place too where its goroutine waits
//	request.trace_id, request.span_id, request.took_nano, request.attr.KEY
//	                   the span in which, how long that took, the request's attributes
//	config.id, config.name, mode, providers
//	                   which configuration, which of its traces, and what feeds it
//	process.pid, host.name
//	                   the process, whose traces can have entries in common
//	manual             Bool true: by hand
//	window.asked_nano, window.got_nano
//	                   of a snapshot: how far back it was to go, and goes
//	evicted            entries that the ring had given up although they are of the
//	                   window that was asked for
//	dropped.REASON     entries that the recorder has dropped since it began
//
// Below it is what providers tell that belongs to no span, "provider off" with
// provider and error where one could not go on, and in the end, of a stream,
// "trace end" with end.reason (stopped, timeout, max_bytes, shutdown), duration_nano
// and dropped.REASON.
//
// A span that began before the window is there if it had not ended when that
// begins. What belongs to a span whose beginning the ring had given up hangs below
// the resource, with the ids of the span.
//
// # After a crash
//
// While the process lives it holds a lock on its ring. It is in [Options].BufferDir, or in
// shared memory where that survives the process, or else in the folder: a file
// ring-HOST-PID-DATE.ring, which is the ring, or a text that says where the ring is. Where memory
// has less room than was asked for the ring is smaller, which is reported; below 8 MiB it
// is in the folder. The next control in that folder, or "entrace recover DIR", turns
// the rings whose processes are dead into DATE-HOST-PID-0001-crash.et, where DATE is
// that of the last record and "crash", below entrace.trace, what the runtime wrote
// when the process died. If the runtime was told to write labels (tracebacklabels=1 in
// GODEBUG), it names the span whose work the goroutine did that panicked: if that is open,
// an event "exception" marks it as failed. Nothing else tells which span it was, so that
// without these labels none is marked. A span that ends while the panic goes up has such an
// event in any case. Whatever ends a process leaves its ring: a panic, a fatal
// error of the runtime, os.Exit, SIGKILL, the kernel's OOM killer. A loss of power
// may leave less. A ring is removed when its trace is on disk. A ring that cannot be
// read stays, and so does one of which no trace can be made; the error is reported. One of
// another version of this package is renamed to NAME.broken, and one that was in memory
// when the machine was started anew is gone, which is reported once.
// In a container the folder has to be on a volume that outlives it. In shared memory the
// ring counts as memory; elsewhere the kernel writes it to disk every half a minute
// or so.
package control
