// Package bench compares recording with other libraries that a Go service could
// use. It is a module of its own, so that these libraries stay out of the go.mod
// of users.
//
// Compared benchmarks differ in the last element of their name. It names the
// candidate: "entrace" is the recorder with its defaults, "entrace-buffered" and
// "entrace-writethrough" use another durability. All candidates write to a real
// file below TMPDIR, on the same file system, which should be on a disk. All
// record the source position. After so many records a benchmark begins a new
// file; it syncs, closes and removes the old one with the timer stopped.
//
// The command in ratios makes the table of the README from the output of one or
// more runs. Make several runs instead of using -count: then other load on the
// machine affects all candidates alike:
//
//	for i in $(seq 10); do
//		go test -run '^$' -bench 'File|Buffered|Handler|Durability|Span' .
//		go test -run '^$' -bench Finalize -benchtime 1000000x .
//		go test -run '^$' -bench Service -benchtime 20000x .
//	done | tee bench.txt
//	go test -run '^$' -bench 'Open|Scan' -count 10 ../../../format | tee -a bench.txt
//	go run ./ratios bench.txt
//
// From the benchmarks of package format it reads "ns/op" and "B/op" of
// Open/entries=1000000.et, and "ns/entry", for each entry and core, of
// Scan/entries=1000000.et.
//
// In BenchmarkFinalize an operation is one entry; a recording has at most a
// million entries. In BenchmarkService an operation is one request to each of
// three servers.
package bench
