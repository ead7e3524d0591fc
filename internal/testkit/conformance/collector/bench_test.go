//go:build conformance

package collector

import (
	"bytes"
	"encoding/binary"
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
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

// plainLines returns OTLP JSON like that of a service: lines with 512 spans that have a few attributes each.
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
		must(b, err)
		out.Write(append(line, '\n'))
	}
	return out.Bytes()
}

// protobufs converts the lines to protobuf messages. all is a sequence of lengths and messages, and one has each
// message separately.
func protobufs(b testing.TB, lines []byte) (all []byte, one [][]byte) {
	for line := range bytes.Lines(lines) {
		td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(line)
		must(b, err)
		m, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
		must(b, err)
		all = append(binary.BigEndian.AppendUint32(all, uint32(len(m))), m...)
		one = append(one, m)
	}
	return all, one
}

func BenchmarkDecode(b *testing.B) {
	lines := plainLines(b)
	prefixed, protos := protobufs(b, lines)
	ours := func(in []byte) func(b *testing.B) {
		return func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				w := newWriter(b, io.Discard)
				must(b, otlp.Decode(b.Context(), bytes.NewReader(in), w, nil))
				closeWriter(b, w)
			}
		}
	}
	b.Run("json/entrace", ours(lines))
	b.Run("json/pdata-unmarshal-only", func(b *testing.B) {
		b.SetBytes(int64(len(lines)))
		b.ReportAllocs()
		for b.Loop() {
			for line := range bytes.Lines(lines) {
				_, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(line)
				must(b, err)
			}
		}
	})
	b.Run("json/pdata", func(b *testing.B) {
		b.SetBytes(int64(len(lines)))
		b.ReportAllocs()
		for b.Loop() {
			w := newWriter(b, io.Discard)
			peerDecode(b, lines, w)
			closeWriter(b, w)
		}
	})
	b.Run("protobuf/entrace", ours(prefixed))
	b.Run("protobuf/pdata-unmarshal-only", func(b *testing.B) {
		b.SetBytes(int64(len(prefixed)))
		b.ReportAllocs()
		for b.Loop() {
			for _, m := range protos {
				_, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(m)
				must(b, err)
			}
		}
	})
}

func newWriter(b *testing.B, out io.Writer) *format.Writer {
	w, err := format.NewWriter(out, 0, format.IET, nil)
	must(b, err)
	return w
}

func closeWriter(b *testing.B, w *format.Writer) {
	must(b, w.Close())
}

// peerDecode writes the same entries, but decodes with pdata. It does not sort spans so that parents come first.
func peerDecode(b testing.TB, lines []byte, w *format.Writer) {
	write := func(e *format.TraceEntry, parent uint32) uint32 {
		e.Parent = parent
		id, err := w.Write(e)
		must(b, err)
		return id
	}
	write(format.Root(), 0)
	var holder uint32
	for line := range bytes.Lines(lines) {
		td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(line)
		must(b, err)
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
					id := write(tracetest.Of(&s, otel.Where{}), holder)
					for _, ev := range sp.Events().All() {
						e := otel.Event{Name: ev.Name(), Time: int64(ev.Timestamp()), HasTime: true, Attributes: attributes(ev.Attributes())}
						write(tracetest.Of(&e, scope.Name), id)
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
	must(b, os.WriteFile(path, lines, 0o600))
	f, err := format.Open(decode(b, path), nil)
	must(b, err)
	defer f.Close()
	v, err := view.New(b.Context(), []*format.File{f}, nil)
	must(b, err)
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
	var all []ptrace.Traces
	for line := range bytes.Lines(lines) {
		td, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(line)
		must(b, err)
		all = append(all, td)
	}
	for name, m := range map[string]ptrace.Marshaler{"json": &ptrace.JSONMarshaler{}, "protobuf": &ptrace.ProtoMarshaler{}} {
		b.Run("pdata-marshal-only/"+name, func(b *testing.B) {
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				n = 0
				for _, td := range all {
					out, err := m.MarshalTraces(td)
					must(b, err)
					n += len(out)
				}
			}
			b.SetBytes(int64(n))
		})
	}
}
