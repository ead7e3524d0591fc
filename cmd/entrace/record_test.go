package main

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/querytest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/write/inside"
	"github.com/entrace-go/entrace/recorder"
)

// begun is the time at which most traces of the tests begin.
var begun = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

const waiting = "runtime.gopark /go/src/runtime/proc.go:462\nruntime.goparkunlock /go/src/runtime/proc.go:468\nruntime.semacquire1 /go/src/runtime/sema.go:192\n" +
	"internal/sync.runtime_SemacquireMutex /go/src/runtime/sema.go:95\ninternal/sync.(*Mutex).lockSlow /go/src/internal/sync/mutex.go:149\n" +
	"main.(*server).lockA /home/ada/orders/main.go:121\nmain.(*server).transfer /home/ada/orders/main.go:133\nnet/http.HandlerFunc.ServeHTTP /go/src/net/http/server.go:2322"

// A recording records the entries of a test. It panics on an error.
type recording struct{ *recorder.Recorder }

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// add records an entry and returns its id. attributes are pairs of a name and a value.
func (r recording) add(parent uint32, e *format.TraceEntry, attributes ...any) uint32 {
	e.Parent = parent
	for i := 0; i < len(attributes); i += 2 {
		var value format.Value
		switch v := attributes[i+1].(type) {
		case string:
			value = format.StringValue(v)
		case int:
			value = format.I64Value(int64(v))
		case uint64:
			value = format.U64Value(v)
		case float64:
			value = format.FloatValue(v)
		case bool:
			value = format.BoolValue(v)
		case []byte:
			value = format.BytesValue(v)
		case time.Time:
			value = format.TimeValue(v)
		default:
			panic(fmt.Sprintf("%T", v))
		}
		e.Add(attributes[i].(string), value)
	}
	id, err := r.Append(e)
	check(err)
	return id
}

func named(name string) *format.TraceEntry {
	return tracetest.Entry(name)
}

func level(l format.Level, e *format.TraceEntry) *format.TraceEntry {
	e.Metadata.Level = l
	return e
}

// logged returns a log record.
func logged(text string) *format.TraceEntry {
	e := named(fmt.Sprintf("event main.go:%d", len(text)))
	e.Message = format.Some(text)
	return e
}

func (r recording) resource(service string) uint32 {
	e := level(format.LevelInfo, named(format.NameResource))
	e.Message = format.Some(service)
	return r.add(0, e)
}

// span records a span with the duration took. If took is negative, the span has not ended.
func (r recording) span(parent uint32, e *format.TraceEntry, id int, start time.Time, took time.Duration, attributes ...any) uint32 {
	ids := []any{format.AttrTraceID, strings.Repeat("01", 16), format.AttrSpanID, fmt.Sprintf("%016x", id), format.AttrTime, start}
	if took >= 0 {
		ids = append(ids, format.AttrDuration, uint64(took))
	}
	return r.add(parent, e, append(ids, attributes...)...)
}

// traceOf records a trace of a kind and leaves it open.
func traceOf(kind, name string, args ...string) *recorder.Recorder {
	record, ok := traceKinds[kind]
	if !ok {
		panic("there is no trace " + kind)
	}
	o := &recorder.Options{}
	if kind == "rotated" {
		o.MaxFileEntries = 20
	}
	rec, err := recorder.Create(name, o)
	check(err)
	record(recording{rec}, args)
	check(rec.Flush(context.Background()))
	return rec
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	check(err)
	return n
}

// traceKinds are the traces that tests record.
var traceKinds = map[string]func(r recording, args []string){
	"empty": func(recording, []string) {},
	// sample has entries of all kinds.
	"sample": func(r recording, _ []string) {
		at := func(ms int) time.Time { return begun.Add(time.Duration(ms) * time.Millisecond) }
		shop := r.resource("shop")
		request := level(format.LevelError, named("GET /cart"))
		request.Metadata.Target = "scope"
		get := r.span(shop, request, 1, at(1), 12345*time.Microsecond, "path", "/cart?x=1 2", mapping.AttrKind, "server", mapping.AttrStatusDescription, "no luck")
		r.add(get, level(format.LevelError, named("exception")), mapping.AttrEvent, true)
		r.add(get, named(mapping.NameLink), mapping.AttrLinkTraceID, "ab", mapping.AttrLinkSpanID, "cd")
		r.span(get, named("SELECT"), 2, at(2), -1, "path", "/cart?x=1 2")
		r.add(get, level(format.LevelWarn, logged("cart loaded")), format.AttrTime, at(1000), "n", -3, "f", 2.0, "ok", true, "raw", []byte{1, 255})
	},
	// requests has three similar requests. The second one fails.
	"requests": func(r recording, _ []string) {
		shop := r.resource("shop")
		for i, user := range []string{"ada", "bob", "eve"} {
			at := func(ms int) time.Time { return begun.Add(time.Duration(100*i+ms) * time.Millisecond) }
			request, status := named("GET /cart"), []any{}
			if i == 1 {
				request, status = level(format.LevelError, request), []any{mapping.AttrStatusCode, "ERROR", mapping.AttrStatusDescription, "it broke"}
			}
			get := r.span(shop, request, i+1, at(0), -1,
				"server.address", "127.0.0.1", "http.request.method", "GET", "app.version", "1.0", "payload", strings.Repeat("x", 200),
				"user", user, "http.response.status_code", 200+300*(i%2), mapping.AttrKind, "internal")
			r.add(get, level(format.LevelInfo, logged("loaded")), format.AttrTime, at(10), "took", "24ms", "items", i)
			if i == 1 {
				r.add(get, level(format.LevelError, logged("first line\nsecond line")), format.AttrTime, at(20),
					"stack", "main.go:1\n\tmain.go:2\nmain.go:3\n4\n5\n6\n7\n8\n")
			}
			end := named(format.NameSpanEnd)
			end.Metadata.Level = request.Metadata.Level
			r.add(get, end, append(status, format.AttrSpanID, fmt.Sprintf("%016x", i+1), format.AttrDuration, uint64(30+i)*1_000_000)...)
		}
	},
	// hang is a flight recorder's file with a request that waits for a lock, and two requests that have ended.
	"hang": func(r recording, _ []string) {
		at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
		own := r.add(0, named(mapping.NameTrace), format.AttrTime, at(9000), "trigger", "watchdog", "reason", "span GET /b is open for 2s")
		r.add(own, named("runtime.metrics"), format.AttrTime, at(1))
		orders := r.resource("orders")
		slow := r.span(orders, named("GET /a"), 1, at(1000), 400*time.Millisecond)
		price := r.span(slow, named("price"), 2, at(1010), 380*time.Millisecond)
		r.span(price, named("tax service"), 3, at(1020), 350*time.Millisecond)
		hang := r.span(orders, named("GET /b"), 4, at(2000), -1)
		r.span(hang, named("transfer b->a"), 5, at(2001), -1)
		stack := level(format.LevelDebug, named("goroutines"))
		stack.Message = format.Some("main.(*server).lockA")
		r.add(hang, stack, format.AttrTime, at(4000), "count", uint64(1), "stack", waiting)
	},
	// front calls stock, and has a span that has not ended.
	"front": func(r recording, _ []string) {
		front := r.resource("front")
		get := r.span(front, named("GET /cart"), 1, begun, time.Second, "user", "ada")
		r.span(get, named("hang"), 5, begun.Add(500*time.Millisecond), -1, "user", "ada")
		r.span(get, named("late"), 6, begun.Add(999*time.Millisecond), time.Millisecond, "user", "ada")
	},
	"stock": func(r recording, _ []string) {
		stock := r.resource("stock")
		at := func(ms int) time.Time { return begun.Add(time.Duration(ms) * time.Millisecond) }
		get := r.span(stock, named("GET /stock"), 2, at(100), 800*time.Millisecond, format.AttrParentSpanID, "0000000000000001", "user", "ada")
		r.span(get, named("parse"), 3, at(100), time.Millisecond, "user", "ada")
		r.span(get, named("SELECT"), 4, at(110), 700*time.Millisecond, "user", "ada")
	},
	// loop has two requests, which query for each price.
	"loop": func(r recording, _ []string) {
		shop, id := r.resource("shop"), 0
		at := func() time.Time { id++; return begun.Add(time.Duration(2*id) * time.Millisecond) }
		for _, queries := range []int{5, 6} {
			list := r.span(shop, named("GET /list"), id+1, at(), 12*time.Millisecond)
			for range queries {
				r.span(list, named("SELECT"), id+1, at(), time.Duration(queries-4)*time.Millisecond, "db.query.text", fmt.Sprintf("SELECT *\n FROM prices WHERE id = %d", id))
			}
		}
	},
	// snapshot TRIGGER REASON is a flight recorder's file that has only the entry about its trigger.
	"snapshot": func(r recording, args []string) {
		e := level(format.LevelInfo, named(mapping.NameTrace))
		e.Attributes = tracetest.Attributes("trigger", args[0], "reason", args[1])
		_, err := inside.Of(r.Recorder).AppendAnchor(e)
		check(err)
	},
	// hanging MS is a flight recorder's file of a process that ends while its request hangs.
	"hanging": func(r recording, args []string) {
		r.add(0, named(mapping.NameTrace), mapping.AttrProcessID, uint64(7), mapping.AttrHostName, "host")
		r.span(0, named("GET /hang"), 1, time.Unix(1, 0), -1)
		r.add(0, logged("after "+args[0]), format.AttrTime, time.UnixMilli(int64(number(args[0]))))
	},
	// run N NANOSECONDS FAILS has N requests of NANOSECONDS each. FAILS of them fail.
	"run": func(r recording, args []string) {
		for i := range number(args[0]) {
			e := named("GET /cart")
			if i < number(args[2]) {
				e = level(format.LevelError, e)
			}
			r.add(0, e, format.AttrSpanID, fmt.Sprintf("%016x", i+1), format.AttrTraceID, fmt.Sprintf("%032x", i+1),
				format.AttrTime, time.Unix(0, int64(i)*1000), format.AttrDuration, uint64(number(args[1])+i%9))
		}
	},
	// busy N has N rows: requests of ten rows with alike queries, of which some fail. The last one does not end.
	"busy": func(r recording, args []string) {
		shop, get, n := r.resource("shop"), uint32(0), number(args[0])
		for i := range n {
			at := begun.Add(time.Duration(i) * time.Millisecond)
			took := time.Duration(1000+i*7919%5000) * time.Microsecond
			if i%10_000 == 9_999 {
				check(r.Flush(context.Background())) // a busy machine writes more slowly than this loop records
			}
			switch i % 10 {
			case 0:
				request := named(fmt.Sprintf("GET /%d", i/10%3))
				if i%1000 == 70 {
					request = level(format.LevelError, request)
				}
				if i+10 >= n {
					took = -1
				}
				get = r.span(shop, request, i+1, at, took, "user", "ada", "note", strings.Repeat("long ", i/10%3*400))
			case 9:
				r.add(get, level(format.LevelInfo, logged(fmt.Sprintf("order %d is paid", i))), format.AttrTime, at, "items", i)
			default:
				r.span(get, named("SELECT orders"), i+1, at, took, "db.query.text", fmt.Sprintf("SELECT * FROM orders WHERE id = %d", i))
			}
		}
	},
	// models has an agent's span with calls of two models, one of which fails.
	"models": func(r recording, _ []string) {
		agent := r.resource("agent")
		top := r.span(agent, named("invoke_agent"), 1, begun, time.Second, "gen_ai.operation.name", "invoke_agent", "gen_ai.input.messages", `[{"role":"user","content":"hi"}]`)
		for i, model := range []string{"small", "large", "small"} {
			call := named("chat " + model)
			if i == 1 {
				call = level(format.LevelError, call)
			}
			r.span(top, call, i+2, begun.Add(time.Duration(i)*time.Millisecond), time.Duration(i+1)*time.Millisecond, "server.address", "127.0.0.1", "gen_ai.operation.name", "chat",
				"gen_ai.request.model", model, "gen_ai.usage.input_tokens", 10*(i+1), "gen_ai.usage.output_tokens", i)
		}
		r.span(top, named("SELECT"), 9, begun, time.Millisecond)
	},
	// lossy has dropped a record.
	"lossy": func(r recording, _ []string) {
		check(r.Log(format.SpanRef{}, logged("said")))
		if err := r.Log(format.SpanRef{}, level(200, named("event"))); err == nil {
			panic("an entry of no level is taken")
		}
	},
	// rotated N has N log records in files of about 20 entries. rotated N NAME begins with the span NAME, which is
	// open in all files, and with a span that ends.
	"rotated": func(r recording, args []string) {
		if len(args) > 1 {
			p, err := exporter.NewSpanProcessor(exporter.WithRecorder(r.Recorder))
			check(err)
			tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p)).Tracer("t")
			_, _ = tracer.Start(context.Background(), args[1])
			_, s := tracer.Start(context.Background(), "GET /done")
			s.End()
		}
		for i := range number(args[0]) {
			check(r.Log(format.SpanRef{}, logged(fmt.Sprintf("record %d.", i))))
			check(r.Flush(context.Background()))
		}
	},
	// stack has a log record with a stack.
	"stack": func(r recording, _ []string) {
		r.add(0, logged("failed"), "stack", "main.go:1\n\tmain.go:2\n")
		r.span(0, named("SELECT"), 1, begun, -1)
	},
	// odd has rare values and source positions.
	"odd": func(r recording, _ []string) {
		e := named("…")
		e.Metadata.Target, e.Metadata.File, e.Metadata.Line = "t", format.Some("f"), format.Some(uint32(124))
		zero := 0.0
		r.add(0, e, "tick", uint64(0), "b", []byte{0, 255}, "f", zero/zero, "g", 3.0, "text", []byte("a\xffb c"))
	},
	// panicked has a span that ended in a panic, as OpenTelemetry's SDK records it.
	"panicked": func(r recording, _ []string) {
		p, err := exporter.NewSpanProcessor(exporter.WithRecorder(r.Recorder))
		check(err)
		tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p)).Tracer("t")
		func() {
			defer func() { _ = recover() }()
			_, s := tracer.Start(context.Background(), "GET /panic")
			defer s.End()
			panic("no such page")
		}()
		_, s := tracer.Start(context.Background(), "GET /cart")
		s.End()
		check(p.Shutdown(context.Background()))
	},
}

// shopFile returns the bytes of an ET with the entries of package querytest.
func shopFile() []byte {
	var b bytes.Buffer
	w, err := format.NewWriter(&b, format.V2, format.ET, nil)
	check(err)
	for _, e := range querytest.Entries() {
		_, err := w.Write(e)
		check(err)
	}
	check(w.Close())
	return b.Bytes()
}
