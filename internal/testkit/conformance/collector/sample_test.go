//go:build conformance

package collector

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/jsontest"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// everyKind adds attributes of all kinds to m.
func everyKind(m pcommon.Map) {
	m.PutStr("text", "plain ü \" \\ \n \u2028 \U0001f600 </script>")
	m.PutStr("text.empty", "")
	m.PutBool("bool", true)
	m.PutBool("bool.false", false)
	m.PutInt("int", math.MinInt64)
	m.PutInt("int.max", math.MaxInt64)
	m.PutInt("int.zero", 0)
	m.PutDouble("double", 0.1)
	m.PutDouble("double.whole", 3)
	m.PutDouble("double.large", math.MaxFloat64)
	m.PutDouble("double.small", 5e-324)
	m.PutDouble("double.minus.zero", math.Copysign(0, -1))
	m.PutDouble("double.nan", math.NaN())
	m.PutDouble("double.inf", math.Inf(1))
	m.PutDouble("double.minus.inf", math.Inf(-1))
	m.PutEmptyBytes("bytes").FromRaw([]byte{0, 1, 0xff, 0xfe})
	m.PutEmptyBytes("bytes.empty")
	m.PutEmpty("empty")
	m.PutEmptySlice("slice.empty")
	m.PutEmptyMap("map.empty")
	list := m.PutEmptySlice("slice")
	list.AppendEmpty().SetStr("a")
	list.AppendEmpty().SetInt(1)
	list.AppendEmpty().SetDouble(1)
	list.AppendEmpty()
	list.AppendEmpty().SetBool(true)
	list.AppendEmpty().SetEmptySlice().AppendEmpty().SetEmptyMap().PutStr("k", "v")
	odd := m.PutEmptyMap("map.odd")
	odd.PutDouble("nan", math.NaN())
	odd.PutEmptyBytes("bytes").FromRaw([]byte{0xff})
	odd.PutEmptyMap("nested").PutInt("n", -7)
	// Names that have a meaning of their own in the entries of a trace.
	for _, name := range []string{
		"trace_id", "span_id", "parent_span_id", "time_unix_nano", "duration_nano", "trace_flags", "otel.kind", "otel.attr.x",
		"otel.json", "otel.anyvalue", "otel.scope.attr.y", "entrace.open", "log.level", "severity_number", "otel.event", "",
	} {
		m.PutStr(name, "user's "+name)
	}
	m.PutStr("code.file.path", "/src/cart.go")
	m.PutInt("code.line.number", 17)
	m.PutStr("code.function.name", "example.com/shop/cart.(*Cart).Load")
}

func traceID(n byte) pcommon.TraceID { return pcommon.TraceID{n, 0xab, 15: n} }

func spanID(n byte) pcommon.SpanID { return pcommon.SpanID{n, 0xcd, 7: n} }

const start = 1_700_000_000_123_456_789

// richTraces returns spans with all fields that a span can have. Children precede their parents.
func richTraces() ptrace.Traces {
	td := ptrace.NewTraces()
	for r := range 3 {
		rs := td.ResourceSpans().AppendEmpty()
		rs.Resource().Attributes().PutStr("service.name", "cart")
		if r != 1 {
			everyKind(rs.Resource().Attributes())
			rs.Resource().SetDroppedAttributesCount(3)
			rs.SetSchemaUrl("https://opentelemetry.io/schemas/1.26.0")
		}
		for sc := range 2 {
			ss := rs.ScopeSpans().AppendEmpty()
			ss.Scope().SetName("scope")
			if sc == 0 {
				ss.Scope().SetVersion("1.2.3")
				ss.SetSchemaUrl("https://example.com/schema")
				everyKind(ss.Scope().Attributes())
				ss.Scope().SetDroppedAttributesCount(4)
			}
			for k := range 6 {
				n := byte(1 + r*12 + sc*6 + k)
				sp := ss.Spans().AppendEmpty()
				sp.SetName(fmt.Sprint("span ", n))
				sp.SetTraceID(traceID(byte(1 + sc)))
				sp.SetSpanID(spanID(n))
				if k < 5 {
					sp.SetParentSpanID(spanID(n + 1)) // the parent follows later
				} else if r == 1 {
					sp.SetParentSpanID(spanID(200)) // there is no such parent
				}
				sp.SetKind(ptrace.SpanKind(k))
				sp.SetStartTimestamp(start + pcommon.Timestamp(n)*1000)
				sp.SetEndTimestamp(start + pcommon.Timestamp(n)*2000 + 1)
				sp.SetFlags([]uint32{0, 1, 257, 0x301, math.MaxUint32, 256}[k])
				switch k {
				case 0:
					everyKind(sp.Attributes())
					sp.TraceState().FromRaw("a=1,b=2")
					sp.SetDroppedAttributesCount(1)
					sp.SetDroppedEventsCount(2)
					sp.SetDroppedLinksCount(math.MaxUint32)
					sp.Status().SetCode(ptrace.StatusCodeError)
					sp.Status().SetMessage("it broke\n")
				case 1:
					sp.SetEndTimestamp(0) // the span has not ended
					sp.Status().SetCode(ptrace.StatusCodeOk)
				case 2:
					sp.SetEndTimestamp(start - 5) // the clock ran backwards
				case 3:
					sp.SetStartTimestamp(0)
					sp.SetName("")
				case 4:
					sp.SetEndTimestamp(math.MaxUint64)
				}
				for i := range k {
					ev := sp.Events().AppendEmpty()
					ev.SetName([]string{"exception", "", "event x", "link"}[i%4])
					if i != 3 {
						ev.SetTimestamp(start + pcommon.Timestamp(100-i)) // not in chronological order
					}
					if i == 0 {
						everyKind(ev.Attributes())
						ev.SetDroppedAttributesCount(9)
					}
					l := sp.Links().AppendEmpty()
					l.SetFlags(uint32(i))
					if i != 1 {
						l.SetTraceID(traceID(9))
						l.SetSpanID(spanID(byte(i)))
					}
					if i == 2 {
						everyKind(l.Attributes())
						l.SetDroppedAttributesCount(8)
						l.TraceState().FromRaw("c=3")
					}
				}
			}
		}
	}
	// Spans with invalid ids.
	odd := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	sp := odd.AppendEmpty() // without a parent, a trace, an id
	sp.SetName("no ids")
	sp = odd.AppendEmpty()
	sp.SetName("its own parent")
	sp.SetTraceID(traceID(7))
	sp.SetSpanID(spanID(77))
	sp.SetParentSpanID(spanID(77))
	for n := range byte(3) {
		sp = odd.AppendEmpty()
		sp.SetName("in a cycle")
		sp.SetTraceID(traceID(7))
		sp.SetSpanID(spanID(80 + n))
		sp.SetParentSpanID(spanID(80 + (n+1)%3))
	}
	for n := range byte(2) {
		sp = odd.AppendEmpty()
		sp.SetName("twice")
		sp.SetTraceID(traceID(7))
		sp.SetSpanID(spanID(90))
		sp.SetStartTimestamp(pcommon.Timestamp(n))
	}
	sp = odd.AppendEmpty()
	sp.SetName("below what is there twice")
	sp.SetTraceID(traceID(7))
	sp.SetSpanID(spanID(91))
	sp.SetParentSpanID(spanID(90))
	for n := range byte(2) {
		sp = odd.AppendEmpty()
		sp.SetName("without a trace")
		sp.SetSpanID(spanID(100 + n))
		sp.SetParentSpanID(spanID(101 - n*50))
	}
	return td
}

// richLogs returns log records with all fields that a log record can have.
func richLogs() plog.Logs {
	ld := plog.NewLogs()
	for r := range 2 {
		rl := ld.ResourceLogs().AppendEmpty()
		rl.Resource().Attributes().PutStr("service.name", "cart")
		if r == 0 {
			everyKind(rl.Resource().Attributes())
			rl.SetSchemaUrl("https://opentelemetry.io/schemas/1.26.0")
		}
		sl := rl.ScopeLogs().AppendEmpty()
		sl.Scope().SetName("scope")
		if r == 0 {
			sl.SetSchemaUrl("https://example.com/logs")
			sl.Scope().SetVersion("7")
			everyKind(sl.Scope().Attributes())
		}
		for n := range 26 {
			lr := sl.LogRecords().AppendEmpty()
			lr.SetSeverityNumber(plog.SeverityNumber(n))
			switch n % 4 {
			case 0:
				lr.SetSeverityText("INFO")
			case 1:
				lr.SetSeverityText(plog.SeverityNumber(n).String())
			case 2:
				lr.SetSeverityText("odd")
			}
			if n%3 > 0 {
				lr.SetTimestamp(start + pcommon.Timestamp(n))
			}
			if n%3 > 1 {
				lr.SetObservedTimestamp(start + 7 + pcommon.Timestamp(n))
			}
			if n%5 > 1 {
				lr.SetTraceID(traceID(byte(n % 4)))
				lr.SetSpanID(spanID(byte(n)))
			} else if n%5 == 1 {
				lr.SetTraceID(traceID(1))
			}
			lr.SetFlags(plog.LogRecordFlags(n % 2))
			if n == 2 {
				everyKind(lr.Attributes())
				lr.SetDroppedAttributesCount(6)
				lr.SetEventName("device.app.lifecycle")
			}
			body := lr.Body()
			switch n % 9 {
			case 0:
				body.SetStr("message <b> \x1b[0m")
			case 1:
				body.SetStr("")
			case 2: // none
			case 3:
				body.SetInt(math.MaxInt64)
			case 4:
				body.SetDouble(math.NaN())
			case 5:
				body.SetBool(false)
			case 6:
				body.SetEmptyBytes().FromRaw([]byte{0xff, 0})
			case 7:
				everyKind(body.SetEmptyMap())
			case 8:
				body.SetEmptySlice().AppendEmpty().SetStr("x")
			}
		}
	}
	return ld
}

// canonical returns the spans and log records in messages that pdata has marshaled, in the form of
// [jsontest.OTLP].
func canonical(t testing.TB, messages ...[]byte) []string {
	t.Helper()
	return jsontest.OTLP(t, bytes.Join(messages, nil))
}
