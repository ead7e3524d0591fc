package loglines

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/testkit/converttest"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/view"
)

var (
	must     = expect.Must
	limit    = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	whenLog  = time.Date(2026, 11, 29, 7, 53, 15, 0, time.UTC)
	toOTLP   = converttest.Format{Decode: Decode, Encode: func(ctx context.Context, w io.Writer, v *view.View) error { return otlp.Encode(ctx, w, v, nil) }}
	inReader = func(s string) io.Reader { return strings.NewReader(s) }
)

// describe returns a line for each record that a Parser makes from a text.
func describe(text string) string {
	var out strings.Builder
	p := NewParser(limit, func(r *Record) {
		l := &r.Log
		fmt.Fprintf(&out, "%s: %s %d %s %q", r.Shape.Name, time.Unix(0, l.Time).UTC().Format("15:04:05.999"), l.Severity, l.SeverityText, l.Body.Text)
		if r.Service+l.Scope.Name != "" {
			fmt.Fprintf(&out, " %s/%s", r.Service, l.Scope.Name)
		}
		if l.TraceID != [16]byte{} {
			fmt.Fprintf(&out, " %x/%x", l.TraceID, l.SpanID)
		}
		if s := r.Span; s != nil {
			fmt.Fprintf(&out, " span %s at %s for %s", s.Name, time.Unix(0, s.Start).UTC().Format("15:04:05.999"), time.Duration(s.Duration))
		}
		for _, a := range l.Attributes {
			fmt.Fprintf(&out, " %s=%s", a.Name, a.Value)
		}
		out.WriteByte('\n')
	})
	p.clock.zone = time.UTC
	for text != "" {
		text = text[p.Next(text):]
	}
	p.Flush()
	return out.String()
}

// TestExamples reads the example of each row of the tables. The row must describe it, its record must be an error, and
// its file must count as a log if it has a time.
func TestExamples(t *testing.T) {
	var all strings.Builder
	for _, s := range append(wrappers, shapes...) {
		got := describe(s.Example)
		shape, rest, _ := strings.Cut(got, ": ")
		if wrapped := strings.HasSuffix(s.Pattern, "{line}"); strings.Count(got, "\n") != 1 || shape != s.Name && !wrapped && s.Name != "time" || strings.Contains(rest, " 9 INFO ") {
			t.Errorf("the example of %s becomes %s", s.Name, got)
		}
		if strings.Contains(s.Pattern, "{time") && !Is([]byte(s.Example)) {
			t.Errorf("the example of %s is not found to be a log", s.Name)
		}
		all.WriteString(got)
	}
	converttest.Golden(t, "examples.txt", []byte(all.String()))
}

func TestSamples(t *testing.T) {
	for _, name := range []string{"json", "stacks", "text", "caddy"} {
		b, err := os.ReadFile(filepath.Join("testdata", name+".log"))
		must(t, err)
		converttest.Golden(t, name+".txt", []byte(describe(string(b))))
		if !Is(b) {
			t.Errorf("%s is not found to be a log", name)
		}
	}
}

// TestTimes reads times in all layouts. A time without a date or a year is before the limit.
func TestTimes(t *testing.T) {
	c := clock{limit, time.UTC}
	for text, want := range map[string]time.Time{
		"2026-11-29T07:53:15Z": whenLog, "2026-11-29 07:53:15": whenLog, "2026/11/29 07:53:15": whenLog, "29/Nov/2026:08:53:15 +0100": whenLog,
		"2026-11-29 08:53:15 CET": whenLog, "2026-11-29T02:53:15-05:00": whenLog, "Sun Nov 29 07:53:15 2026": whenLog, "Nov 29, 2026 7:53:15 AM": whenLog,
		"29 Nov 2026 07:53:15": whenLog, "29-Nov-2026 07:53:15": whenLog, "1129 07:53:15": whenLog, "07:53:15": whenLog,
		"Dec  1 07:53:15": time.Date(2025, 12, 1, 7, 53, 15, 0, time.UTC), "23:00:00": time.Date(2026, 11, 28, 23, 0, 0, 0, time.UTC),
		"7:53PM": time.Date(2026, 11, 28, 19, 53, 0, 0, time.UTC),
	} {
		at, n := c.at(text)
		if got := time.Unix(0, at).UTC(); !got.Equal(want) || n != len(text) {
			t.Errorf("%s is %v after %d bytes, want %v", text, got, n, want)
		}
	}
	for _, text := range []string{"", "2026-13-29 07:53:15", "2026-11-29", "Foo 29 07:53:15", "1.2.3", "99999"} {
		if _, n := c.at(text); n != 0 {
			t.Errorf("%q is a time of %d bytes", text, n)
		}
	}
}

// TestBlocks reads lines of all samples in an input of several blocks. It must become the same as when one Parser reads
// it, and each record must be below its service.
func TestBlocks(t *testing.T) {
	var sample strings.Builder
	for _, name := range []string{"json", "stacks"} {
		b, err := os.ReadFile(filepath.Join("testdata", name+".log"))
		must(t, err)
		sample.Write(b)
	}
	text := strings.Repeat(sample.String(), 3*blockSize/sample.Len())
	var want, got []string
	p := NewParser(limit, func(r *Record) { want = append(want, r.Service+": "+r.Log.Body.Text) })
	for rest := text; rest != ""; {
		rest = rest[p.Next(rest):]
	}
	p.Flush()
	v := converttest.Read(t, back(t, text))
	for r := range v.Rows() {
		switch v.Role(r) {
		case view.RoleLog:
			message, _ := v.Message(r)
			got = append(got, v.Service(r)+": "+message)
		case view.RoleSpan: // the line of Caddy
			got = append(got, v.Service(r)+": handled request")
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d records, want %d, or in another order", len(got), len(want))
	}
}

func back(t testing.TB, text string) []byte {
	t.Helper()
	iet, err := toOTLP.Back(t.Context(), t, inReader(text), format.V2)
	must(t, err)
	return iet
}

// TestHostile reads bad inputs: each input must become records, and must need no more than a few blocks in memory.
func TestHostile(t *testing.T) {
	for name, x := range map[string]struct {
		text string
		rows int
	}{
		"a long line":     {strings.Repeat("x", 3*blockSize), 3 * blockSize / maxRecord},
		"empty lines":     {strings.Repeat("\n", 2*blockSize), 0},
		"deep JSON":       {strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000), 1},
		"names of fields": {names(100_000), 100_000},
		"times that jump": {strings.Repeat("2026-11-29 07:53:15 a\n1970-01-01 00:00:00 b\n9999-12-31 23:59:59 c\n", 10), 30},
		"carriage return": {"a\r\nb\r\n", 2},
		"colors":          {"\x1b[31mERROR\x1b[0m red\n\x1b[", 2},
	} {
		v := converttest.Read(t, back(t, x.text))
		n := 0
		for r := range v.Rows() {
			if v.Role(r) == view.RoleLog {
				n++
			}
		}
		if n != x.rows {
			t.Errorf("%s: %d records, want %d", name, n, x.rows)
		}
	}
	if _, err := toOTLP.Back(t.Context(), t, inReader("text\x00"), format.V1); err == nil {
		t.Error("a binary file is read")
	}
}

func names(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "{\"msg\":\"m\",\"level\":\"info\",\"n%d\":1}\n", i)
	}
	return b.String()
}

// TestOtherTexts checks that other texts do not count as logs.
func TestOtherTexts(t *testing.T) {
	for _, text := range []string{
		"hello world\n", "# Title\n\nNote: 5 things\n", "package main\n\nfunc main() {}\n", "a,b\n2026-11-29 07:53:15,1,2\n", "A=1\nB=2\n",
		`{"traceId":"1","id":"2","name":"n","timestamp":1795938795651000}`, `{"data":[{"traceID":"1","spans":[]}]}`, "2026-11-29 07:53:15 x\x00\n", "",
	} {
		if Is([]byte(text)) {
			t.Errorf("%q is found to be a log", text)
		}
	}
}

// TestAllocations counts the allocations for a line of JSON and one of an access log.
func TestAllocations(t *testing.T) {
	for text, most := range map[string]float64{
		`{"time":"2026-11-29T07:53:15.651Z","level":"ERROR","msg":"no card","order":7,"ok":true}` + "\n": 0,
		shapes[7].Example + "\n": 44,
	} {
		p := NewParser(limit, func(*Record) {})
		if got := testing.AllocsPerRun(100, func() { p.Next(text) }); got > most {
			t.Errorf("%.0f allocations, want at most %.0f: %s", got, most, text)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range append(wrappers, shapes...) {
		f.Add([]byte(s.Example))
	}
	for _, name := range []string{"json.log", "stacks.log"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		must(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		Is(in)
		var iet bytes.Buffer
		w, err := format.NewWriter(&iet, format.V2, format.IET, nil)
		must(t, err)
		if err := Decode(t.Context(), bytes.NewReader(in), w); err == nil {
			must(t, w.Close())
			converttest.Read(t, iet.Bytes())
		}
	})
}

// FuzzWrappers removes wrappers. The rest is not longer than the line.
func FuzzWrappers(f *testing.F) {
	for _, s := range wrappers {
		f.Add(s.Example)
	}
	f.Fuzz(func(t *testing.T, line string) {
		p := NewParser(limit, func(*Record) {})
		p.begin()
		if inner := p.unwrap(line); len(inner) > max(len(line), utf8.UTFMax*len(line)) {
			t.Errorf("%d bytes become %d", len(line), len(inner))
		}
	})
}

// FuzzShapes finds the shape of lines, and reads no more bytes than there are.
func FuzzShapes(f *testing.F) {
	for _, s := range shapes {
		f.Add(s.Example)
	}
	f.Fuzz(func(t *testing.T, lines string) {
		p := NewParser(limit, func(*Record) {})
		p.begin()
		if n := p.shapeOf(lines); n < 0 || n > len(lines) || p.Shape == nil {
			t.Errorf("it reads %d of %d bytes, and the shape is %v", n, len(lines), p.Shape)
		}
	})
}

// FuzzFields sets fields that may have a meaning, from texts and from numbers.
func FuzzFields(f *testing.F) {
	f.Add("time", "2026-11-29 07:53:15", int64(1795938795), .5)
	f.Add("xray_trace_id", "Root=1-5f84c7a1-e7d1852db8c4fd35d88bf49a;Parent=48d78105ba86a39e", int64(1), .5)
	f.Add("traceparent", "00-15bd01ba056cb09e6b119204fd81e12a-48d78105ba86a39e-01", int64(-1), 1e300)
	f.Fuzz(func(t *testing.T, name, text string, n int64, x float64) {
		for _, v := range []otel.Any{otel.TextAny(text), otel.IntAny(n), {Kind: otel.Float, Float: x}} {
			p := NewParser(limit, func(*Record) {})
			p.begin()
			p.Shape = shapeJSON
			p.field([]byte(name), &v)
			p.finish()
		}
		c := clock{limit, time.UTC}
		if _, n := c.at(text); n < 0 || n > len(text) {
			t.Errorf("the time in %q has %d bytes", text, n)
		}
	})
}
