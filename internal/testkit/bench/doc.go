// Package bench compares recording with other libraries that a Go service could use. It is a separate module, so
// that these libraries are not in the go.mod of users.
//
// Benchmarks that are compared differ only in the last element of their name, which is the candidate: "entrace" is
// the recorder with its defaults, and "entrace-writethrough" has another durability. All
// candidates write to real files below TMPDIR, on the same file system, which should be on a disk. All record the
// source position. From time to time a benchmark begins a new file: it stops the timer while it syncs, closes and
// removes the old one.
//
// The command in the folder ratios makes the table of the README from the output of one or more runs. Repeat the
// whole run instead of using -count, so that other load on the machine affects all candidates alike:
//
//	for i in $(seq 10); do
//		go test -run '^$' -bench 'File|Buffered|Handler|Durability|Span' .
//		go test -run '^$' -bench Finalize -benchtime 1000000x .
//		go test -run '^$' -bench Service -benchtime 20000x .
//	done | tee bench.txt
//	go test -run '^$' -bench 'Open|Scan' -count 10 ../../../format | tee -a bench.txt
//	go run ./ratios bench.txt
//
// From the benchmarks of package format, ratios reads "ns/op" and "B/op" of Open/entries=1000000.et, and
// "ns/entry" (per entry and core) of Scan/entries=1000000.et.
//
// In BenchmarkFinalize, an operation is one entry, and a recording has at most a million entries. In
// BenchmarkService, an operation is one request to each of three servers.
package bench
