// Package filesource reads the configuration of a [control.Control] from a YAML file
// and follows the file as it changes.
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
//	    on: [{trigger: signal, key: SIGUSR1}, {trigger: http}, {trigger: api, key: "import*"}]
//	    mode: stream
//	    timeout: 30s
//	    max_bytes: 256MiB
//	    providers: [spans, logs, runtime.metrics, gc, sched, cpu.profile, goroutines]
//	    keep_if:
//	      any: ["tenant=acme"]     # one of these is on a span or log record
//	      all: []                  # or all of these
//	      longest: [{longer_than: 2s, one_in: 1}, {longer_than: 500ms, one_in: 10}]
//	      else: 0                  # one in so many of the rest
//	    params: {runtime.metrics.interval: 50ms}
//
// All keys may be left out but dir, which [Options] can supply, and each trace's name
// and providers. A key with nothing after it is as if it were left out. Unknown keys
// and those that come twice are errors.
//
//	id      text         what traces call the configuration; default: "sha256:" and the
//	                     first 12 hexadecimal digits of the SHA-256 of the file's bytes
//	dir     text         the folder of the traces
//	keep                 bounds of what is in dir
//	  files   number     default 50; 0 is no bound, here and in the next two
//	  bytes   size       default 2GiB
//	  age     duration   default 0
//	ring                 what is recorded all the time, in memory
//	  bytes   size       default 32MiB; 0: there is none
//	  persist bool       default true: it outlives a crash
//	  always  providers  default [spans, logs, runtime.metrics, gc]
//	  params  params
//	traces  list         what requests become: see control.TraceConfig for all of it
//	  name        text
//	  on          list   the requests that it is for
//	    trigger     text       api, signal, http, log, span, watchdog, panic, start, exit
//	    key         text       a pattern, in which "*" is any text
//	    level       level      for log
//	    longer_than duration   for span and watchdog
//	    count       number     so many of them
//	    within      duration   in that time
//	  mode        text   snapshot (default) or stream
//	  window      duration     of a snapshot; default 30s
//	  scope       text   of a snapshot: all (default) or trace
//	  providers   providers
//	  every       duration     between two; default 0: no limit, here and in the next two
//	  per_hour    number
//	  one_in      number
//	  timeout     duration     of a stream; default 30s
//	  max_bytes   size         of a stream; default 0: no bound
//	  keep_if            whether it is kept when it has ended; default: it is
//	    any         list       of "name=value"
//	    all         list       of "name=value"
//	    longest     list       of longer_than (duration) and one_in (number)
//	    else        number     default 0: none of the others
//	  params      params
//
// The kinds of values:
//
//   - text is any scalar, as it is written, of 4096 bytes at most.
//   - A number is whole, and decimal.
//   - A size is a whole number of bytes, or one with a unit: B, KB, MB, GB, TB are
//     powers of 1000, KiB, MiB, GiB, TiB of 1024.
//   - A duration is as in [time.ParseDuration], and can begin with whole days: 7d, 1d12h.
//   - A bool is true or false.
//   - A level is trace, debug, info, warn, error, or one of the last four with an offset,
//     as in error+2: see [log/slog.Level.UnmarshalText]. Trace is debug-4.
//   - Providers are a list of names as [control.Named] knows them.
//   - Params are a mapping of PROVIDER.NAME to scalars. The provider must be known.
//
// Which signals there are depends on the system: SIGUSR1 is unknown on Windows.
//
// Of YAML there are no tags and no merge keys (<<). Anchors and aliases can be used; an
// alias counts as all that it stands for, and a file must not have more than 20,000 keys
// and values. It has one document of 256 KiB at most, nested 64 deep at most. An
// empty file is an error, one without traces is not.
//
// # Changes
//
// A source that is watched reads the file when something happens in its folder, after a
// short time in which nothing else does, and every few seconds besides. So it sees files
// that are written, replaced, and swapped as Kubernetes does for mounted config maps. A
// file that is broken is reported, once, and leaves in force what was before. What a
// symbolic link leads to in another folder is found by the second way alone.
package filesource
