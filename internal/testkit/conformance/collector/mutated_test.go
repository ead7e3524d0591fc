//go:build conformance

package collector

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"unicode/utf8"

	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/format"
)

// unknownEnums matches kinds and codes whose numbers have no meaning in OTLP.
var unknownEnums = regexp.MustCompile(`"kind":(-\d+|\d\d+|[6-9]),?|"code":(-\d+|\d\d+|[3-9]),?`)

// TestMutated damages messages at random. If pdata can still read a message, convert/otlp must read the same from
// it. Exceptions are the losses that the documentation of package otlp lists, and text that is not valid JSON.
func TestMutated(t *testing.T) {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	richTraces().ResourceSpans().At(1).CopyTo(rs)
	rs.ScopeSpans().RemoveIf(func(s ptrace.ScopeSpans) bool { return s.Scope().Version() != "" })
	rs.ScopeSpans().At(0).Spans().RemoveIf(func(s ptrace.Span) bool { return s.Links().Len() > 2 })
	text := marshalTraces(t, td)
	proto, err := (&ptrace.ProtoMarshaler{}).MarshalTraces(td)
	must(t, err)
	read, refused := 0, 0
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 4000 {
		var b []byte
		var peer ptrace.Traces
		if i%2 == 0 {
			b = mutate(rnd, text, true)
			peer, err = (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(b)
		} else {
			b = mutate(rnd, proto, false)
			peer, err = (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(b)
		}
		if err != nil {
			continue
		}
		want := marshalTraces(t, peer)
		if !utf8.Valid(want) || bytes.Contains(want, []byte("Strindex")) {
			continue
		}
		name := filepath.Join(t.TempDir(), "x.iet")
		if !decodeMutated(t, name, b) {
			refused++
			continue
		}
		read++
		var got []string
		if out := encode(t, name, nil); len(out) > 0 {
			traces, _ := judged(t, out)
			got = canonicals(t, traces, nil)
		}
		if want := canonical(t, want); !slices.EqualFunc(got, want, func(a, b string) bool {
			return unknownEnums.ReplaceAllString(a, "") == unknownEnums.ReplaceAllString(b, "")
		}) {
			t.Errorf("%q\nis read as %v\nwant       %v", b, got, want)
		}
	}
	t.Logf("%d messages are read the same, %d that pdata reads are refused", read, refused)
	if read < 1000 || refused > read/50 {
		t.Errorf("%d messages are read, %d that pdata reads are refused", read, refused)
	}
}

// mutate damages a copy of b in one or two places.
func mutate(rnd *rand.Rand, b []byte, text bool) []byte {
	const chars = `{}[]",:0123456789abcdefnulltrue\.-e `
	b = slices.Clone(b)
	for range 1 + rnd.IntN(2) {
		at := rnd.IntN(len(b))
		switch n := rnd.IntN(3); {
		case n == 0:
			b = slices.Delete(b, at, min(len(b), at+1+rnd.IntN(3)))
		case !text:
			b[at] ^= 1 << rnd.IntN(8)
		case n == 1:
			b[at] = chars[rnd.IntN(len(chars))]
		case n == 2:
			b = slices.Insert(b, at, chars[rnd.IntN(len(chars))])
		}
	}
	return b
}

// decodeMutated writes a trace file, and reports whether this worked without an error.
func decodeMutated(t *testing.T, name string, b []byte) bool {
	t.Helper()
	var out bytes.Buffer
	w, err := format.NewWriter(&out, 0, format.IET, nil)
	must(t, err)
	derr := otlp.Decode(t.Context(), bytes.NewReader(b), w, nil)
	must(t, w.Close())
	must(t, os.WriteFile(name, out.Bytes(), 0o600))
	return derr == nil
}
