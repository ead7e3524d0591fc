package exporter_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/view"
)

var update = flag.Bool("update", false, "write the expected texts in testdata again")

// TestCases runs the cases in testdata/cases.txt, whose head explains their words, in each way to record.
func TestCases(t *testing.T) {
	tracetest.Golden(t, "testdata/cases.txt", *update, func(lines string) (said string) {
		t.Run(lines, func(t *testing.T) {
			trees := make(map[string][]string)
			for _, way := range []string{"live", "batch", "forgotten"} {
				tree := runCase(t, way, strings.Split(lines, "\n"))
				trees[tree] = append(trees[tree], way)
				if len(trees[tree]) == 1 {
					said += "WAYS:\n" + tree
				}
			}
			for tree, ways := range trees {
				said = strings.Replace(said, "WAYS:\n"+tree, strings.Join(ways, ", ")+":\n"+tree, 1)
			}
			said = strings.TrimPrefix(said, "live, batch, forgotten:\n")
		})
		return said
	})
}

// caseValues are the values that cases have by their names.
var caseValues = map[string]any{
	"min": int64(math.MinInt64), "NaN": math.NaN(), "Inf": math.Inf(-1), "big": 1e300, "not": "a\xffb", "empty": attribute.Value{}, "bytes": []byte{0, 255},
	"hi": []byte("hi"), "max": int64(math.MaxInt),
}

// A running case records with the SDK of OpenTelemetry. Its clock advances by a nanosecond with each command.
type running struct {
	*testing.T

	way       string
	rec       *recorder.Recorder
	limits    sdktrace.SpanLimits
	options   []exporter.Option
	providers map[string]*sdktrace.TracerProvider
	loggers   map[string]*sdklog.LoggerProvider
	ids       counter
	spans     map[string]trace.Span
	contexts  map[string]context.Context
	now       time.Time
}

// inOrder makes a recorder write the entries in the order of the calls.
var inOrder = &recorder.Options{Durability: recorder.DurabilityWriteThrough}

// runCase runs the lines of a case, and returns the tree of the view.
func runCase(t *testing.T, way string, lines []string) string {
	c := &running{
		T: t, way: way, rec: create(t, inOrder), limits: sdktrace.NewSpanLimits(), providers: map[string]*sdktrace.TracerProvider{}, loggers: map[string]*sdklog.LoggerProvider{},
		spans: map[string]trace.Span{}, contexts: map[string]context.Context{}, now: epoch,
	}
	c.options = []exporter.Option{exporter.WithRecorder(c.rec)}
	for _, line := range lines {
		c.run(tracetest.Commands(line, caseValues))
	}
	ctx := context.WithoutCancel(t.Context())
	for _, service := range slices.Sorted(maps.Keys(c.providers)) {
		must(t, errors.Join(c.providers[service].Shutdown(ctx), c.loggers[service].Shutdown(ctx)))
	}
	v := finish(t, c.rec)
	if st := c.rec.Stats().Spans; st.Offered != st.Written {
		t.Errorf("the account of spans is %+v", st)
	}
	return tracetest.ViewTree(t, v, func(r view.Row, e *format.TraceEntry) string {
		switch v.Role(r) {
		case view.RoleLog:
		case view.RoleSpan:
			return " (in " + v.Service(r) + ")"
		default:
			return ""
		}
		l := new(otel.Reader).Log(e)
		return fmt.Sprintf(" (reads %d %s at %d, seen at %d, %s)", l.Severity, l.SeverityText, l.Time, l.Observed, otel.AppendAnyValue(nil, &l.Body))
	})
}

// of returns the providers of a service.
func (c *running) of(service string) (*sdktrace.TracerProvider, *sdklog.LoggerProvider) {
	if c.providers[service] != nil {
		return c.providers[service], c.loggers[service]
	}
	res := sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", service)))
	o := []sdktrace.TracerProviderOption{sdktrace.WithIDGenerator(&c.ids), sdktrace.WithRawSpanLimits(c.limits), res}
	processor := func() *exporter.SpanProcessor {
		p, err := exporter.NewSpanProcessor(c.options...)
		must(c, err)
		return p
	}
	logs := "processor"
	switch c.way {
	case "live":
		o = append(o, sdktrace.WithSpanProcessor(processor()))
	case "batch":
		e, err := exporter.New(c.options...)
		must(c, err)
		o, logs = append(o, sdktrace.WithBatcher(e)), "exporter"
	case "forgotten": // the processor has forgotten a span whose start was recorded
		o = append(o, sdktrace.WithSpanProcessor(startsOnly{processor()}), sdktrace.WithSpanProcessor(endsOnly{processor()}))
	}
	c.providers[service] = sdktrace.NewTracerProvider(o...)
	c.loggers[service] = sdklog.NewLoggerProvider(sdklog.WithProcessor(logProcessor(c, logs, c.rec)), sdklog.WithAllowKeyDuplication(),
		sdklog.WithResource(resource.NewSchemaless(attribute.String("service.name", service))))
	return c.providers[service], c.loggers[service]
}

// run runs the commands of a line.
func (c *running) run(commands []tracetest.Command) {
	service, ctx, timed := "shop", c.Context(), true
	var r log.Record
	var start []trace.SpanStartOption
	for i := range commands {
		command := &commands[i]
		name, second := command.Word(1), command.Word(2)
		attributes := attributesOf(command.Attributes)
		c.now = c.now.Add(1)
		at := trace.WithTimestamp(c.now)
		span := c.spans[name]
		switch command.Word(0) {
		case "links":
			c.limits.LinkCountLimit = c.number(name)
		case "of":
			service = name
		case "in":
			ctx = c.contexts[name]
		case "at":
			var err error
			c.now, err = time.Parse(time.RFC3339Nano, name)
			must(c, err)
		case "kind":
			start = append(start, trace.WithSpanKind(trace.SpanKind(c.number(name))))
		case "linked":
			start = append(start, trace.WithLinks(trace.Link{SpanContext: spanContext(byte(c.number(name)), trace.FlagsSampled, false, ""), Attributes: attributes}))
		case "start":
			p, _ := c.of(service)
			tracer := p.Tracer("scope", trace.WithInstrumentationVersion("v1"))
			c.contexts[name], c.spans[name] = tracer.Start(ctx, name, append(start, at, trace.WithAttributes(attributes...))...)
		case "event":
			span.AddEvent(second, at, trace.WithAttributes(attributes...))
		case "set":
			span.SetAttributes(attributes...)
		case "link":
			span.AddLink(trace.Link{SpanContext: spanContext(byte(c.number(second)), trace.FlagsSampled, false, ""), Attributes: attributes})
		case "rename":
			span.SetName(second)
		case "fail":
			span.SetStatus(codes.Error, second)
		case "end":
			span.End(at)
		case "timeless":
			timed = false
		case "severity":
			r.SetSeverity(log.Severity(c.number(name)))
			r.SetSeverityText(second)
		case "body":
			r.SetBody(attributes[0].Value)
		case "log":
			_, p := c.of(service)
			if timed {
				r.SetTimestamp(c.now)
			}
			r.SetObservedTimestamp(c.now.Add(1000))
			r.SetEventName(name)
			r.AddAttributes(attributes...)
			p.Logger("scope", log.WithInstrumentationVersion("v1"), log.WithInstrumentationAttributes(attribute.String("k", "v"))).Emit(ctx, r)
		default:
			c.Fatalf("unknown command %s", command.Words)
		}
	}
}

func (c *running) number(text string) int {
	n, err := strconv.Atoi(text)
	must(c, err)
	return n
}

func attributesOf(pairs []tracetest.Pair) []attribute.KeyValue {
	var all []attribute.KeyValue
	for _, p := range pairs {
		all = append(all, attribute.KeyValue{Key: attribute.Key(p.Key), Value: valueOf(p.Value)})
	}
	return all
}

// valueOf returns a value of a case as OpenTelemetry's. A list of one kind becomes a slice of that kind.
func valueOf(x any) attribute.Value {
	switch x := x.(type) {
	case attribute.Value:
		return x
	case bool:
		return attribute.BoolValue(x)
	case int64:
		return attribute.Int64Value(x)
	case float64:
		return attribute.Float64Value(x)
	case string:
		return attribute.StringValue(x)
	case []byte:
		return attribute.ByteSliceValue(x)
	case []tracetest.Pair:
		return attribute.MapValue(attributesOf(x)...)
	}
	list := x.([]any) //nolint:forcetypeassert // a case with another value panics
	if s := sliceOf[string](list); s != nil {
		return attribute.StringSliceValue(s)
	} else if s := sliceOf[int64](list); s != nil {
		return attribute.Int64SliceValue(s)
	} else if s := sliceOf[float64](list); s != nil {
		return attribute.Float64SliceValue(s)
	} else if s := sliceOf[bool](list); s != nil {
		return attribute.BoolSliceValue(s)
	}
	var values []attribute.Value
	for _, x := range list {
		values = append(values, valueOf(x))
	}
	return attribute.SliceValue(values...)
}

// sliceOf returns a list whose elements have the type T, and nil for another list.
func sliceOf[T any](list []any) []T {
	all := []T{}
	for _, x := range list {
		if x, is := x.(T); is {
			all = append(all, x)
		}
	}
	if len(all) < len(list) {
		return nil
	}
	return all
}

// A counter generates the ids 1, 2, 3 and so on.
type counter struct {
	mu sync.Mutex
	n  byte
}

func (c *counter) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	id := c.NewSpanID(ctx, trace.TraceID{})
	return trace.TraceID{15: id[7]}, id
}

func (c *counter) NewSpanID(context.Context, trace.TraceID) trace.SpanID {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return trace.SpanID{7: c.n}
}

// startsOnly passes only the starts of spans to its processor, and endsOnly only the ends. So the
// processor of endsOnly does not know the spans that end.
type (
	startsOnly struct{ *exporter.SpanProcessor }
	endsOnly   struct{ *exporter.SpanProcessor }
)

func (startsOnly) OnEnd(sdktrace.ReadOnlySpan)                   {}
func (endsOnly) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
