// Command traces writes the files that the browser tests open to the folder in its first argument. With a second
// argument, it records to a file of that name in the folder: one log record for each line that it reads, or the
// begin or the end of a span for the lines "begin" and "end".
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/control/provider"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/querytest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
)

func main() {
	log.SetFlags(0)
	if err := run(os.Args[1:]); err != nil {
		log.Fatal("traces: ", err)
	}
}

func run(args []string) error {
	dir := args[0]
	if len(args) > 1 {
		return live(filepath.Join(dir, args[1]+".et"))
	}
	if err := write(filepath.Join(dir, "shop.et"), shop()); err != nil {
		return err
	}
	if err := write(filepath.Join(dir, "hostile.et"), hostile()); err != nil {
		return err
	}
	if err := write(filepath.Join(dir, "deep.et"), deep(2000)); err != nil {
		return err
	}
	if err := write(filepath.Join(dir, "long.et"), long()); err != nil {
		return err
	}
	for name, entries := range map[string][]*format.TraceEntry{"warehouse": warehouse(), "pool": pool(), "outlier": outlier(), "loop": loop(), "release": release(0, 2000), "before": release(0, 1000), "after": release(1000, 2000)} {
		if err := write(filepath.Join(dir, name+".et"), entries); err != nil {
			return err
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "two"), 0o700); err != nil { //nolint:gosec // within the folder that it is given
		return err
	}
	for _, service := range []string{"front", "back"} {
		if err := write(filepath.Join(dir, "two", service+".et"), calls(service)); err != nil {
			return err
		}
	}
	if err := hang(dir, "hang.et", 0); err != nil {
		return err
	}
	if err := hang(dir, "runtime.et", control.RuntimeMetrics|control.GC); err != nil {
		return err
	}
	return many(filepath.Join(dir, "million.et"), 1_000_000)
}

func write(name string, entries []*format.TraceEntry) error {
	var b bytes.Buffer
	w, err := format.NewWriter(&b, format.V2, format.ET, nil)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if _, err := w.Write(e); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return os.WriteFile(name, b.Bytes(), 0o600) //nolint:gosec // into the folder that it is given
}

// shop is the trace of package querytest, with an additional statement, source file, long value and link.
func shop() []*format.TraceEntry {
	all := querytest.Entries()
	str := format.StringValue
	all[4].Attributes = append(all[4].Attributes, format.Attribute{Name: "db.query.text", Value: str("SELECT sku, price FROM prices WHERE sku = $1 ORDER BY price")},
		format.Attribute{Name: "body", Value: str(`{"items":[1,2,3],"note":"` + strings.Repeat("long ", 10_000) + `"}`)})
	all[4].Metadata.File, all[4].Metadata.Line = format.Some("/src/shop/price.go"), format.Some(uint32(42))
	return append(all, &format.TraceEntry{Parent: 8, Metadata: format.Metadata{Name: mapping.NameLink}, Attributes: []format.Attribute{
		{Name: mapping.AttrLinkTraceID, Value: str(fmt.Sprintf("%032s", "a"))}, {Name: mapping.AttrLinkSpanID, Value: str(fmt.Sprintf("%016s", "3"))},
	}})
}

// hostile has HTML markup, and characters that change how text is displayed, in every field.
func hostile() []*format.TraceEntry {
	const evil = "<img src=x onerror=\"window.broken=1\">\u202e\u0007</script><script>window.broken=1</script>"
	s := format.StringValue(evil)
	e := &format.TraceEntry{Parent: 1, Message: format.Some(evil), Metadata: format.Metadata{Name: evil, Target: evil, File: format.Some("javascript:" + evil), Line: format.Some(uint32(1)), Level: format.LevelError}, Attributes: []format.Attribute{
		{Name: evil, Value: s}, {Name: format.AttrTime, Value: format.U64Value(1)}, {Name: "big", Value: format.StringValue(strings.Repeat("<b>x</b>", 1<<17))},
	}}
	return []*format.TraceEntry{format.Root(), {Message: format.Some(evil), Metadata: format.Metadata{Name: format.NameResource}, Attributes: []format.Attribute{{Name: "service.name", Value: s}}}, e}
}

// span returns a span with the given id and a duration of one millisecond.
func span(parent uint32, id uint64, name string, more ...format.Attribute) *format.TraceEntry {
	return &format.TraceEntry{Parent: parent, Metadata: format.Metadata{Name: name, Level: format.LevelInfo}, Attributes: append([]format.Attribute{
		{Name: format.AttrSpanID, Value: format.StringValue(fmt.Sprintf("%016x", id))},
		{Name: format.AttrTraceID, Value: format.StringValue(fmt.Sprintf("%032x", 1))},
		{Name: format.AttrTime, Value: format.U64Value(1000 * id)},
		{Name: format.AttrDuration, Value: format.U64Value(1_000_000)},
	}, more...)}
}

// deep has n spans. Each span is the parent of the next span.
func deep(n uint32) []*format.TraceEntry {
	all := []*format.TraceEntry{format.Root()}
	for id := range n {
		all = append(all, span(id, uint64(id)+1, fmt.Sprint("level ", id+1)))
	}
	all[n].Metadata.Name = "bottom"
	all[n].Add("found", format.StringValue("at last"))
	return all
}

// long has a log record with many lines, like the record that net/http writes when a handler panics, and a span
// with a name of 10 KB.
func long() []*format.TraceEntry {
	stack := strings.Repeat("main.handler(0x1)\n\t/src/shop/main.go:42 +0x1d\n", 30)
	return []*format.TraceEntry{
		format.Root(),
		span(0, 1, "GET /panic"),
		{Parent: 1, Message: format.Some("http: panic serving 127.0.0.1:58192: assignment to entry in nil map\n" + stack), Metadata: format.Metadata{Name: "event", Level: format.LevelInfo}, Attributes: []format.Attribute{
			{Name: format.AttrTime, Value: format.U64Value(2000)}, {Name: "user", Value: format.StringValue("mallory")},
		}},
		{Parent: 1, Metadata: format.Metadata{Name: mapping.NameException, Level: format.LevelError}, Attributes: []format.Attribute{
			{Name: format.AttrTime, Value: format.U64Value(3000)},
			{Name: mapping.AttrEvent, Value: format.BoolValue(true)},
			{Name: "exception.type", Value: format.StringValue("runtime.plainError")},
			{Name: "exception.message", Value: format.StringValue("assignment to entry in nil map")},
			{Name: "exception.stacktrace", Value: format.StringValue(stack)},
		}},
		span(0, 3, strings.Repeat("a long name ", 900), format.Attribute{Name: "user", Value: format.StringValue("eve")}),
	}
}

// calls returns the trace of one of two services. The service front calls the service back, whose clock is 120 ms
// late. Both have spans named render.
func calls(service string) []*format.TraceEntry {
	str := format.StringValue
	all := []*format.TraceEntry{format.Root(), {Message: format.Some(service), Metadata: format.Metadata{Name: format.NameResource}, Attributes: []format.Attribute{{Name: "service.name", Value: str(service)}}}}
	at := func(id uint64, start, took int64, parent uint64, name, kind string) {
		e := span(1, id, name, format.Attribute{Name: mapping.AttrKind, Value: str(kind)})
		e.Attributes[2].Value, e.Attributes[3].Value = format.U64Value(uint64(start)), format.U64Value(uint64(took))
		if parent > 0 {
			e.Add(format.AttrParentSpanID, str(fmt.Sprintf("%016x", parent)))
		}
		all = append(all, e)
	}
	const ms, begin, late = 1_000_000, 1_700_000_000_000_000_000, 120_000_000
	for k := range uint64(40) {
		start := int64(begin + k*1000*ms)
		if service == "front" {
			at(100+k, start, 20*ms, 0, "GET /", "server")
			at(200+k, start+2*ms, 12*ms, 100+k, "call", "client")
			at(300+k, start+15*ms, 3*ms, 100+k, "render", "internal")
		} else {
			at(400+k, start+4*ms-late, 8*ms, 200+k, "POST /", "server")
			at(500+k, start+5*ms-late, 2*ms, 400+k, "render", "internal")
		}
	}
	return all
}

// many writes n entries: requests with four spans and a log record each. The last request has half of all entries.
func many(name string, n int) error {
	f, err := os.OpenFile(strings.TrimSuffix(name, ".et")+".iet", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600) //nolint:gosec // as above
	if err != nil {
		return err
	}
	defer f.Close()
	b := bufio.NewWriterSize(f, 1<<20)
	w, err := format.NewWriter(b, format.V2, format.IET, nil)
	if err != nil {
		return err
	}
	id := uint64(0)
	var failed error
	put := func(e *format.TraceEntry) uint32 {
		at, err := w.Write(e)
		if failed == nil {
			failed = err
		}
		return at
	}
	span := func(parent uint32, name string, start, took int64) uint32 {
		id++
		return put(&format.TraceEntry{Parent: parent, Metadata: format.Metadata{Name: name, Level: format.LevelInfo}, Attributes: []format.Attribute{
			{Name: format.AttrSpanID, Value: format.StringValue(fmt.Sprintf("%016x", id))},
			{Name: format.AttrTraceID, Value: format.StringValue(fmt.Sprintf("%032x", id/4+1))},
			{Name: format.AttrTime, Value: format.U64Value(uint64(start))},
			{Name: format.AttrDuration, Value: format.U64Value(uint64(took))},
			{Name: "n", Value: format.U64Value(id)},
		}})
	}
	put(format.Root())
	shop := put(&format.TraceEntry{Message: format.Some("shop"), Metadata: format.Metadata{Name: format.NameResource}, Attributes: []format.Attribute{{Name: "service.name", Value: format.StringValue("shop")}}})
	at := int64(1_700_000_000_000_000_000)
	for k := 0; k < n/2; k += 5 {
		request := span(shop, fmt.Sprint("GET /page/", k%7), at, 1_000_000)
		span(request, "authorize", at+1000, 200_000)
		query := span(request, "SELECT price", at+300_000, 500_000)
		put(&format.TraceEntry{Parent: query, Message: format.Some(fmt.Sprint("row ", k)), Metadata: format.Metadata{Name: "event", Level: format.LevelInfo}, Attributes: []format.Attribute{{Name: format.AttrTime, Value: format.U64Value(uint64(at + 400_000))}}})
		span(request, "render", at+850_000, 100_000)
		at += 2_000_000
	}
	batch := span(shop, "nightly batch", at, int64(n)*1000)
	for k := range n / 2 {
		span(batch, fmt.Sprint("item ", k%100), at+int64(k)*2000, 1900)
	}
	for _, err := range []error{failed, w.Close(), b.Flush()} {
		if err != nil {
			return err
		}
	}
	return format.Finalize(context.Background(), f.Name(), name, nil)
}

// live reads lines. For each line it records a log record, or the begin or the end of a span.
func live(name string) error {
	rec, err := recorder.Create(name, nil)
	if err != nil {
		return err
	}
	ref, begun := format.SpanRef{TraceID: [16]byte{1}, SpanID: [8]byte{1}}, time.Now()
	id := format.Attribute{Name: format.AttrSpanID, Value: format.StringValue("0100000000000000")}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "begin":
			err = tracetest.WriteSpan(rec, &tracetest.Span{Span: recorder.Span{Ref: ref, Open: true}, Entry: format.TraceEntry{Metadata: format.Metadata{Name: "work"}, Attributes: []format.Attribute{
				id, {Name: format.AttrTraceID, Value: format.StringValue("01000000000000000000000000000000")}, {Name: format.AttrTime, Value: format.TimeValue(begun)},
			}}})
		case "end":
			err = tracetest.EndSpan(rec, ref, nil, &format.TraceEntry{Metadata: format.Metadata{Name: format.NameSpanEnd}, Attributes: []format.Attribute{
				id, {Name: format.AttrDuration, Value: format.U64Value(uint64(time.Since(begun)))},
			}})
		default:
			err = rec.Log(format.SpanRef{}, &format.TraceEntry{Message: format.Some(in.Text()), Metadata: format.Metadata{Name: "event", Level: format.LevelInfo}, Attributes: []format.Attribute{{Name: format.AttrTime, Value: format.TimeValue(time.Now())}}})
		}
		if err != nil {
			return err
		}
		if err := rec.Flush(context.Background()); err != nil {
			return err
		}
		fmt.Println(in.Text())
	}
	return rec.Close(context.Background())
}

// hang records a span that does not end, and waits until the watchdog has written a trace of it.
func hang(dir, name string, always control.Set) error {
	made := make(chan string, 1)
	ctl, err := control.New(&control.Options{
		Config: &control.Config{
			ID: "traces", Dir: dir, Ring: control.RingConfig{Bytes: 4 << 20, Always: control.Spans | control.Logs | always, Params: map[string]string{"runtime.metrics.interval": "20ms"}},
			Traces: []control.TraceConfig{{
				Name: "hang", On: []control.On{{Trigger: control.TriggerWatchdog, LongerThan: 200 * time.Millisecond}},
				Providers: control.Spans | control.Logs | control.Goroutines | always, Window: time.Minute, PerHour: 1,
			}},
		},
		Providers: provider.All(), Service: "shop",
		OnTrace: func(t *control.Trace) { made <- t.Path() },
	})
	if err != nil {
		return err
	}
	ctx := context.Background()
	p, err := entrace.Setup(ctx, entrace.WithControl(ctl))
	if err != nil {
		return err
	}
	ctx, checkout := otel.Tracer("shop").Start(ctx, "POST /checkout")
	ctx, lock := otel.Tracer("shop").Start(ctx, "wait for the lock")
	done := make(chan struct{})
	go waitForLock(ctx, done)
	if always != 0 {
		runtime.GC() // the page draws garbage collections
	}
	path := <-made
	close(done)
	lock.End()
	checkout.End()
	return errors.Join(p.Shutdown(ctx), ctl.Shutdown(ctx), os.Rename(path, filepath.Join(dir, name))) //nolint:gosec // within the folder that it is given
}

// waitForLock blocks until done is closed. Its goroutine has the labels of the span that it begins.
func waitForLock(ctx context.Context, done <-chan struct{}) {
	_, span := otel.Tracer("shop").Start(ctx, "mutex")
	defer span.End()
	<-done
}
