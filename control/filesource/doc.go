// Package filesource reads the configuration of a [control.Control] from a YAML file, and reads the file again when
// it changes.
//
// # The file
//
// This is a complete example: it has every key.
//
//	id: prod-2026-11-20            # default: sha256: and 12 digits of the file's hash
//	dir: /var/lib/myapp/traces     # where the traces go
//	keep: {files: 50, bytes: 2GiB, age: 72h}
//	ring:
//	  bytes: 32MiB                 # 0: no ring, and no snapshots
//	  persist: true                # found again after a crash
//	  always: [spans, logs, runtime.metrics, gc]
//	  params: {runtime.metrics.interval: 1s}
//	traces:
//	  - name: first-error
//	    on: [{trigger: log, level: error}]
//	    mode: snapshot
//	    window: 30s
//	    providers: [spans, logs, runtime.metrics, gc, goroutines]
//	    every: 1m
//	    per_hour: 6
//	  - name: slow-checkout
//	    on:
//	      - {trigger: span, key: "POST /checkout", longer_than: 800ms, count: 3, within: 1m}
//	      - {trigger: watchdog, key: "POST /checkout", longer_than: 5s}
//	    mode: snapshot
//	    window: 15s
//	    scope: all                 # or trace: only what belongs to the trace that fired
//	    providers: [spans, logs, gc, sched, goroutines, exec.trace]
//	    one_in: 1
//	    per_hour: 4
//	  - name: deep
//	    on: [{trigger: http}, {trigger: api, key: "import*"}, {trigger: signal, key: SIGUSR1}]
//	    mode: stream
//	    timeout: 30s
//	    max_bytes: 256MiB
//	    providers: [spans, logs, runtime.metrics, gc, sched, cpu.profile, goroutines]
//	    keep_if:
//	      any: ["tenant=acme"]     # one of these is on a span or log record
//	      all: ["region=eu"]       # and each of these
//	      longest: [{longer_than: 2s, one_in: 1}, {longer_than: 500ms, one_in: 10}]
//	      else: 100                # one in so many of the rest
//	    params: {runtime.metrics.interval: 50ms}
//
// Required keys are dir (unless [Options] has it), and name and providers of each trace. All other keys are
// optional. A key without a value counts as missing. Unknown keys and duplicate keys are errors.
//
//	id              text       the configuration's name; default: sha256: and 12 hexadecimal digits of the file's hash
//	dir             text       the folder of the traces
//	keep                       limits for the traces in dir
//	  files         number     default 50; 0: no bound
//	  bytes         size       default 2GiB; 0: no bound
//	  age           duration   default 0: no bound
//	ring                       the memory to which records are always written
//	  bytes         size       default 32MiB; 0: no ring
//	  persist       bool       default true: the ring survives a crash
//	  always        providers  default [spans, logs, runtime.metrics, gc]
//	  params        params     of the providers
//	traces          list       the kinds of traces: see control.TraceConfig
//	  name          text       a part of the file name
//	  on            list       the requests that become such a trace
//	    trigger     text       api, signal, http, log, span, watchdog, panic, start, exit
//	    key         text       a pattern, in which "*" matches any text
//	    level       level      the lowest level of a log record, for log
//	    longer_than duration   for span and watchdog
//	    count       number     only every count-th request
//	    within      duration   for count: the last count requests must be within this time
//	  mode          text       snapshot (default) or stream
//	  window        duration   how far back a snapshot goes; default 30s
//	  scope         text       the content of a snapshot: all (default) or trace
//	  providers     providers  whose records are in the trace
//	  every         duration   the minimum between two traces; default 0: no limit
//	  per_hour      number     the maximum of traces in an hour; default 0: no limit
//	  one_in        number     one in this number of requests becomes a trace; default 0: no limit
//	  timeout       duration   after which a stream ends; default 30s
//	  max_bytes     size       at which a stream ends; default 0: no bound
//	  keep_if                  whether a stream is kept after its end; default: kept
//	    longest     list       bounds; the highest one that the longest span exceeds applies
//	      longer_than duration   of the longest span
//	      one_in    number     one in this number of traces is kept; 0 or 1: all
//	    any         list       of "name=value"; the trace must have at least one of them
//	    all         list       of "name=value"; the trace must have all of them
//	    else        number     one in this number of the other streams is kept; default 0: none
//	  params        params     of the providers
//
// The kinds of values:
//
//   - A text is any scalar of at most 4096 bytes, without conversion.
//   - A number is a decimal integer.
//   - A size is an integer number of bytes, or a number with a unit: B, KB, MB, GB, TB are powers of 1000,
//     KiB, MiB, GiB, TiB are powers of 1024.
//   - A duration has the form of [time.ParseDuration], and can begin with whole days: 7d, 1d12h.
//   - A bool is true or false.
//   - A level is trace, debug, info, warn, error, or one of the last four with an offset, such as error+2:
//     see [log/slog.Level.UnmarshalText]. The level trace is debug-4.
//   - Providers are a list of names that [control.Named] accepts.
//   - Params are a mapping of PROVIDER.NAME to scalars. The provider must be known.
//
// The known signals depend on the operating system: SIGUSR1 is unknown on Windows.
//
// YAML's tags and merge keys (<<) are not supported; anchors and aliases are. A file can have at most 20,000 keys and
// values; each use of an alias counts with all keys and values of its target. The file must contain one document of
// at most 256 KiB, with a nesting depth of at most 64. An empty file is an error; a file without traces is valid.
//
// # Changes
//
// A watched source reads the file every two seconds. It reports a change when two consecutive reads are equal. So it
// finds changes on any file system, even if the file is replaced through links, as Kubernetes replaces mounted config
// maps. The source reports an invalid file once, and the previous configuration stays in use.
package filesource
