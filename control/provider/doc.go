// Package provider has the providers of this module, for the field Providers of control.Options:
//
//	Runtime     runtime.metrics, gc, sched   samples of runtime/metrics, collections
//	Process     process                      statistics of the operating system
//	Goroutines  goroutines                   a dump
//	CPUProfile  cpu.profile                  a profile, flushed every minute
//	ExecTrace   exec.trace                   the runtime's flight recorder, dumped
//
// A provider belongs to one control. A process can have one CPU profile and one flight recorder of the runtime at a
// time, including profiles and flight recorders that the application starts.
//
// # Parameters
//
//	runtime.metrics.interval  time between samples of gc, sched and runtime.metrics; 1s, least 10ms
//	runtime.metrics.samples   names of package runtime/metrics, with commas between them; see below
//	process.interval          time between samples of process; 1s, least 100ms
//	exec.trace.min_age        how far back the execution trace goes; 10s, least 100ms
//	exec.trace.max_bytes      roughly how much memory it uses, and how many bytes of it are kept at most;
//	                          16777216, from 1 MiB to 48 MiB
//	exec.trace.marks          on, off: spans write their ids into it; on
//
// A value below the minimum counts as the minimum, and a value above the maximum counts as the maximum. If
// a value is not a time, a number or the name of a metric, Start returns an error.
//
// # Entries
//
// The names and attributes are part of the product's format. All entries also have time_unix_nano. It is
// the time of the sample or the dump, unless the table says otherwise. An entry is below the entry of the
// trace, unless the table says otherwise.
//
//	entry            level  target           message
//	runtime.metrics  Trace  runtime/metrics  none
//	sched            Trace  runtime/metrics  none
//	gc               Trace  runtime/debug    none; its time is the end of the pause less its length
//	process          Trace  this package     none
//	goroutines       Debug  runtime/pprof    a function; below the span of the labels
//	cpu.profile      Debug  runtime/pprof    a function; below the span of the labels; its time is when the part began
//	exec.trace       Debug  runtime/trace    "execution trace"; "execution trace too large to keep" without data
//
// A metric is an attribute NAME:UNIT. A cumulative counter of the operating system or the runtime is an
// attribute NAME:UNIT delta: the growth since the previous entry, or since the start. A histogram has four
// attributes. NAME:UNIT count delta is the number of new values. If it is not 0, NAME:UNIT p50, p99 and max
// describe the new values: each is the upper bound of the bucket with this value, or the lower bound if the
// bucket has no upper bound. A metric is U64 or Float, as in package runtime/metrics. Metrics that are not
// available are left out.
//
//	runtime.metrics, sched
//	  interval_nano              U64    the length of the interval of the deltas
//	  NAME:UNIT …                       by default in runtime.metrics:
//	    /gc/heap/live:bytes, /gc/heap/goal:bytes, /gc/heap/objects:objects,
//	    /gc/heap/allocs:bytes, /gc/heap/allocs:objects, /gc/heap/frees:bytes,
//	    /gc/cycles/total:gc-cycles, /memory/classes/heap/objects:bytes,
//	    /memory/classes/heap/stacks:bytes, /memory/classes/heap/released:bytes,
//	    /memory/classes/total:bytes, /cpu/classes/gc/total:cpu-seconds,
//	    /cpu/classes/user:cpu-seconds, /cpu/classes/total:cpu-seconds (the last
//	    three move when a collection ends), /sched/goroutines:goroutines,
//	    /sched/threads/total:threads, /sched/gomaxprocs:threads,
//	    /sched/latencies:seconds, /sched/pauses/total/gc:seconds,
//	    /sync/mutex/wait/total:seconds
//	                                    in sched: all that begin with /sched/goroutines,
//	                                    /sched/latencies:seconds and /sync/mutex/wait/total:seconds
//	gc                                  one for each collection that ended since the last sample
//	  duration_nano              U64    the sum of its pauses of the program
//	  gc.cycle                   U64    its number, from 1
//	  /gc/heap/live:bytes        U64    the live heap after it; only on the latest of a sample
//	  gc.missed                  U64    on the first of a sample: how many before it have no entry
//	                                    (the runtime remembers 256)
//	process
//	  interval_nano                                        U64
//	  process.cpu.time.user:seconds delta                  Float  Unix, likewise system
//	  process.memory.usage:bytes                           U64    Linux: the resident memory
//	  process.memory.virtual:bytes                         U64    Linux
//	  process.memory.peak:bytes                            U64    Linux: the peak of the resident memory
//	  process.memory.swap:bytes                            U64    Linux
//	  process.thread.count:threads                         U64    Linux
//	  process.unix.file_descriptor.count:files             U64    Linux 6.2
//	  process.paging.faults.major:faults delta             U64    Unix, likewise minor
//	  process.context_switches.voluntary:switches delta    U64    Unix, likewise involuntary
//	  process.disk.io.read:bytes delta                     U64    Linux, likewise write
//	  container.memory.usage:bytes                         U64    of the process's cgroup, version 2
//	  container.memory.limit:bytes                         U64    likewise, if it has one
//	  container.cpu.time:seconds delta                     Float  likewise
//	  container.cpu.throttled.time:seconds delta           Float  likewise
//	  container.cpu.throttled.periods:periods delta        U64    likewise
//	  go.memory.used:bytes                                 U64    memory that the runtime has from the system
//	goroutines                          one for each stack with equal labels, 2,000 at most: those
//	                                    with a span first, then the most goroutines first
//	  count                      U64    goroutines
//	  stack                      String
//	  label.KEY                  String
//	cpu.profile                         one for each stack with equal labels, 5,000 at most of a part:
//	                                    the most samples first
//	  samples                    U64
//	  cpu_nano                   U64    processor time
//	  window_nano                U64    how long the part was
//	  stack                      String
//	  label.KEY                  String
//	exec.trace
//	  bytes                      U64    the size of the trace
//	  data                       Bytes  a file for go tool trace: its last whole generations, of about a second each
//	  left_out_bytes             U64    the size of those before that did not fit
//
// The execution trace is in the memory of the process, so it is lost if the process is killed. While an
// execution trace is recorded, by this provider or by the program, each span that is recorded live writes
// log messages to it: "otel.span" when the span begins, and "otel.end" when a span of a second or more
// ends. The text of the message is the id of the span in 16 hexadecimal digits.
//
// The message of an entry goroutines is the function of the program that waits: the innermost one that does
// not belong to the runtime, a lock, a timer or a system call. The message of an entry cpu.profile is the
// innermost function. If there are more stacks than the limit, a last entry "N more stacks" has the sums of
// the others and, instead of a stack, the U64 left_out with the value N.
//
// A stack has a line "function file:line" for each function, innermost first, up to 64 lines and 8 KiB. If
// functions were left out, the last line is "…".
//
// # Spans
//
// An entry whose stack has the pprof labels trace_id and span_id, in 32 and 16 hexadecimal digits, is below
// the span with these ids. These two labels are then not repeated as label.KEY. If only one goroutine works
// for the span, its entry goroutines is below an inner span instead: the last span of the chain in which
// each open span has exactly one open child. Of the other labels, at most 32 are kept, with names of up to
// 128 bytes and values of up to 1 KiB.
//
// # Secrets
//
// The arguments of the program and its environment are not recorded, except the program's name and GODEBUG.
// Labels and the names of files and functions are recorded.
package provider
