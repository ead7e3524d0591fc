// Package bench compares recording with what a Go service would use instead. It
// is a module of its own, so that these stay out of everybody's go.mod.
//
// What is compared lies side by side: the last element of a benchmark's name is
// who does it, "entrace" with the recorder's defaults, "entrace-buffered" and
// "entrace-writethrough" with another durability. All write to a real file below
// TMPDIR, which should be on a disk, all the same file system, and record the
// source position. Files are begun anew after so many records, and then synced,
// closed and removed, off the clock.
//
// The command in ratios makes the table of the README of what one or more runs
// printed. Runs one after another, rather than -count, spread what else the
// machine does over all:
//
//	for i in $(seq 10); do
//		go test -run '^$' -bench 'File|Buffered|Handler|Durability|Span' .
//		go test -run '^$' -bench Finalize -benchtime 1000000x .
//		go test -run '^$' -bench Service -benchtime 20000x .
//	done | tee bench.txt
//	go test -run '^$' -bench 'Open|Scan' -count 10 ../../format | tee -a bench.txt
//	go run ./ratios bench.txt
//
// Of package format it reads "ns/op" and "B/op" of Open/entries=1000000.et and
// "ns/entry", an entry and core, of Scan/entries=1000000.et.
//
// An operation of BenchmarkFinalize is an entry, of recordings of at most a
// million; one of BenchmarkService is a request to each of three servers.
package bench
