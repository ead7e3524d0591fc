//go:build conformance

package collector

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/view"
)

// plainLines returns what a service leaves: lines of 512 spans with a few attributes.
func plainLines(b testing.TB) []byte {
	var out bytes.Buffer
	n := uint64(0)
	id := func() (id pcommon.SpanID) {
		n++
		for i := range 8 {
			id[i] = byte(n * 0x9E3779B97F4A7C15 >> (8 * i))
		}
		return id
	}
	for range 40 {
		td := ptrace.NewTraces()
		rs := td.ResourceSpans().AppendEmpty()
		rs.Resource().Attributes().PutStr("service.name", "cart")
		rs.Resource().Attributes().PutStr("host.name", "host-17.example.com")
		ss := rs.ScopeSpans().AppendEmpty()
		ss.Scope().SetName("go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp")
		ss.Scope().SetVersion("0.61.0")
		for range 64 {
			root := id()
			var trace pcommon.TraceID
			copy(trace[:], root[:])
			for k := range 8 {
				sp := ss.Spans().AppendEmpty()
				sp.SetTraceID(trace)
				sp.SetSpanID(id())
				sp.SetParentSpanID(root)
				if k == 7 {
					sp.SetParentSpanID(pcommon.SpanID{})
					sp.SetSpanID(root)
				}
				sp.SetName("GET /cart/{id}")
				sp.SetKind(ptrace.SpanKindServer)
				sp.SetFlags(257)
				sp.SetStartTimestamp(start + pcommon.Timestamp(n)*1000)
				sp.SetEndTimestamp(start + pcommon.Timestamp(n)*1000 + 500)
				a := sp.Attributes()
				a.PutStr("http.request.method", "GET")
				a.PutStr("url.path", fmt.Sprint("/cart/", n))
				a.PutInt("http.response.status_code", 200)
				a.PutStr("client.address", "192.0.2.17")
				a.PutStr("user_agent.original", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0)")
				a.PutBool("cache.hit", true)
				if k%4 == 0 {
					ev := sp.Events().AppendEmpty()
					ev.SetName("cart loaded")
					ev.SetTimestamp(start + pcommon.Timestamp(n)*1000 + 100)
					ev.Attributes().PutInt("items", int64(n%17))
				}
			}
		}
		line, err := (&ptrace.JSONMarshaler{}).MarshalTraces(td)
		if err != nil {
			b.Fatal(err)
		}
		out.Write(append(line, '\n'))
	}
	return out.Bytes()
}

func BenchmarkDecode(b *testing.B) {
	lines := plainLines(b)
	b.Run("entrace", func(b *testing.B) {
		b.SetBytes(int64(len(lines)))
		b.ReportAllocs()
		for b.Loop() {
			w := newWriter(b, io.Discard)
			if err := otlp.Decode(b.Context(), bytes.NewReader(lines), w, nil); err != nil {
				b.Fatal(err)
			}
			closeWriter(b, w)
		}
	})
	b.Run("pdata-unmarshal-only", func(b *testing.B) {
		b.SetBytes(int64(len(lines)))
		b.ReportAllocs()
		for b.Loop() {
			for line := range bytes.Lines(lines) {
				if _, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(line); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("pdata", func(b *testing.B) {
		b.SetBytes(int64(len(lines)))
		b.ReportAllocs()
		for b.Loop() {
			w := newWriter(b, io.Discard)
			peerDecode(b, lines, w)
			closeWriter(b, w)
		}
	})
}

func newWriter(b *testing.B, out io.Writer) *format.Writer {
	w, err := format.NewWriter(out, 0, format.IET, nil)
	if err != nil {
		b.Fatal(err)
	}
	return w
}

func closeWriter(b *testing.B, w *format.Writer) {
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}

// peerDecode writes the same entries with pdata in place of the decoder: whatever
// it takes to put parents first is left out.
func peerDecode(b testing.TB, lines []byte, w *format.Writer) {
	write := func(e *format.TraceEntry, parent uint32) uint32 {
		e.Parent = parent
		id, err := w.Write(e)
		if err != nil {
			b.Fatal(err)
		}
		return id
	}
	write(format.Root(), 0)
	var holder uint32
	for line := range bytes.Lines(lines) {
		td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(line)
		if err != nil {
			b.Fatal(err)
		}
		for _, rs := range td.ResourceSpans().All() {
			if holder == 0 {
				holder = write((&otel.Resource{Attributes: attributes(rs.Resource().Attributes())}).Entry(), 0)
			}
			for _, ss := range rs.ScopeSpans().All() {
				scope := otel.Scope{Name: ss.Scope().Name(), Version: ss.Scope().Version()}
				for _, sp := range ss.Spans().All() {
					s := otel.Span{
						Name: sp.Name(), TraceID: sp.TraceID(), SpanID: sp.SpanID(), Parent: sp.ParentSpanID(), Flags: sp.Flags(),
						Kind: otel.SpanKind(sp.Kind()), Start: int64(sp.StartTimestamp()), Ended: true,
						Duration: int64(sp.EndTimestamp() - sp.StartTimestamp()), Scope: scope, Attributes: attributes(sp.Attributes()),
					}
					id := write(s.Entry(otel.Where{}), holder)
					for _, ev := range sp.Events().All() {
						e := otel.Event{Name: ev.Name(), Time: int64(ev.Timestamp()), HasTime: true, Attributes: attributes(ev.Attributes())}
						write(e.Entry(scope.Name), id)
					}
				}
			}
		}
	}
}

func attributes(m pcommon.Map) (attrs []otel.Attribute) {
	for name, v := range m.All() {
		a := otel.Attribute{Name: name}
		switch v.Type() {
		case pcommon.ValueTypeInt:
			a.Value = format.I64Value(v.Int())
		case pcommon.ValueTypeBool:
			a.Value = format.BoolValue(v.Bool())
		default:
			a.Value = format.StringValue(v.Str())
		}
		attrs = append(attrs, a)
	}
	return attrs
}

func BenchmarkEncode(b *testing.B) {
	lines := plainLines(b)
	path := filepath.Join(b.TempDir(), "in.jsonl")
	if err := os.WriteFile(path, lines, 0o600); err != nil {
		b.Fatal(err)
	}
	f, err := format.Open(decode(b, path), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	v, err := view.New(b.Context(), []*format.File{f}, nil)
	if err != nil {
		b.Fatal(err)
	}
	for name, o := range map[string]*otlp.EncodeOptions{"json": nil, "protobuf": {Protobuf: true}} {
		b.Run("entrace/"+name, func(b *testing.B) {
			var out bytes.Buffer
			b.ReportAllocs()
			for b.Loop() {
				out.Reset()
				if err := otlp.Encode(b.Context(), &out, v, o); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(out.Len()))
		})
	}
	b.Run("pdata-marshal-only/json", func(b *testing.B) {
		var all []ptrace.Traces
		for line := range bytes.Lines(lines) {
			td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(line)
			if err != nil {
				b.Fatal(err)
			}
			all = append(all, td)
		}
		b.SetBytes(int64(len(lines)))
		b.ReportAllocs()
		for b.Loop() {
			for _, td := range all {
				if _, err := (&ptrace.JSONMarshaler{}).MarshalTraces(td); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
