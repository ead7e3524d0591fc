package main

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// A row is one row of the table. If unit is empty, goal and reached are ratios.
type row struct {
	what, against string
	goal          float64 // the upper limit; 0 if there is no goal
	reached       float64 // NaN if it was not measured
	unit          string
}

const (
	entrace = "entrace"
	through = "entrace-writethrough"
	phuslu  = "phuslu"
	jsonLog = "slog.JSONHandler"
	nothing = "nothing"
)

func table(r results) []row {
	var t []row
	add := func(what, against string, goal, reached float64) {
		t = append(t, row{what: what, against: against, goal: goal, reached: reached})
	}
	for _, x := range []struct {
		attrs                   int
		phuslu, jsonLog, inJSON float64
	}{{10, 0.33, 0.25, 0.85}, {2, 0, 0, 0}} {
		group := fmt.Sprintf("SlogFile/attrs=%d", x.attrs)
		what := fmt.Sprintf("a slog call to a file, %d attributes", x.attrs)
		add(what, "phuslu/log, one write a record", x.phuslu, r.ratio(group, entrace, phuslu, perOp))
		add(what, "slog.JSONHandler", x.jsonLog, r.ratio(group, entrace, jsonLog, perOp))
		add("its bytes", "slog.JSONHandler's", x.inJSON, r.ratio(group, entrace, jsonLog, "B/record"))
		add(what+", written through", "phuslu/log, one write a record", 0, r.ratio(group, through, phuslu, perOp))
	}
	for _, attrs := range []int{10, 2} {
		for _, x := range []struct {
			goroutines int
			goal       float64
		}{{1, 0.70}, {2, 0.70}, {8, 0.70}} {
			group := fmt.Sprintf("SlogBuffered/attrs=%d/goroutines=%d", attrs, x.goroutines)
			what := fmt.Sprintf("a slog call, %d attributes, %s", attrs, count(x.goroutines, "goroutine"))
			add(what, "phuslu/log behind 256 KiB", x.goal, r.ratio(group, entrace, phuslu, perOp))
		}
	}
	for _, x := range []struct {
		group, attrs string
		goal         float64
	}{{"attrs=10", "10 attributes", 0.40}, {"attrs=2", "2 attributes", 0.40}, {"with=10/attrs=2", "2 attributes after With of 10", 0.60}} {
		what := "the handler's own share of it, " + x.attrs
		add(what, "phuslu/log's own", x.goal, r.share("SlogHandler/"+x.group, entrace, phuslu, nothing))
	}

	const export, otlp = "ExportSpans/attrs=10", "otlp-protobuf"
	what := "ExportSpans to a file, batches of 512, 10 attributes"
	add(what, "OTLP protobuf", 0.20, r.ratio(export, entrace, otlp, perOp))
	add("its bytes", "OTLP protobuf's", 1.25, r.ratio(export, entrace, otlp, "B/span"))
	add(what, "stdouttrace", 0, r.ratio(export, entrace, "stdouttrace", perOp))
	for _, goroutines := range []int{1, 2} {
		group := fmt.Sprintf("LiveSpan/attrs=10/goroutines=%d", goroutines)
		what := "a span through the SDK, start and end, 10 attributes, " + count(goroutines, "goroutine")
		add(what, "a processor that does nothing", 1.6, r.ratio(group, entrace, nothing, perOp))
		add(what+", in batches", "a processor that does nothing", 0, r.ratio(group, "entrace-batch", nothing, perOp))
		add(what, "stdouttrace, at the end alone", 0, r.ratio(group, entrace, "stdouttrace", perOp))
	}

	add("finishing an ET of a million entries", "`cp`, and fsync of source and copy", 1.5, r.ratio("Finalize/entries=1000000", entrace, "cp", perOp))

	const opened, million = "Open/entries=1000000.et", 1e6
	t = append(
		t,
		row{"opening an ET of a million entries", "", 10, r.median(opened, perOp) / 1e6, "ms"},
		row{"memory that takes, an entry", "", 24, r.median(opened, bytesPerOp) / million, "B"},
		row{"a scan, an entry and core", "", 60, r.median("Scan/version=1/attrs=1/workers=1", "ns/entry/core"), "ns"},
	)

	const service = "Service/spans=4/records=6"
	cpu := func(variant string) float64 { return r.median(service, variant+"-cpu-ns/req") }
	add("CPU of an HTTP service for recording, 4 spans and 6 records a request", "slog.JSONHandler to a file and OTLP over gRPC", 0.5,
		(cpu(entrace)-cpu(nothing))/(cpu("json+otlp")-cpu(nothing)))

	const flight = "FlightRecorder/spans=10"
	add("CPU of a service with a flight recorder, 1,000 requests a second with 10 spans each", "spans to a processor that does nothing", 1.03,
		r.paired(flight, "flight-recorder-cpu-ns/req", "nothing-cpu-ns/req"))
	add("the same with Go's execution trace and marks", "a flight recorder without it", 1.1, r.paired(flight, "exec-trace-cpu-ns/req", "flight-recorder-cpu-ns/req"))
	const cold = "FlightSpanCold/spans=1"
	add("a span of 4 attributes to a flight recorder, with cold caches", "to a processor that does nothing", 0,
		r.paired(cold, "flight-recorder-ns/span", "nothing-ns/span"))
	const end = "SpanEnd/snapshots"
	add("99th percentile of a span's end while snapshots are taken", "the same without", 2, r.paired(end, "p99-snapshot-ns", "p99-normal-ns"))
	t = append(t, row{"asking for a provider that is off", "", 1, r.median("ProviderOff", perOp), "ns"})
	return t
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// write writes the table as Markdown.
func write(out io.Writer, rows []row) error {
	var b strings.Builder
	b.WriteString("| what | against | goal | reached |\n| --- | --- | --- | --- |\n")
	for _, x := range rows {
		goal, reached := "", "–"
		if x.goal != 0 {
			goal = "≤ " + x.value(x.goal)
		}
		if !math.IsNaN(x.reached) {
			reached = x.value(x.reached)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", x.what, x.against, goal, reached)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func (x *row) value(v float64) string {
	if x.unit == "" {
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3g %s", v, x.unit)
}
