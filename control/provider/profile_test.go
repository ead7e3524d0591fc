package provider

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/pprof/profile"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	texts "github.com/entrace-go/entrace/internal/text"
)

const (
	testTrace = "0102030405060708090a0b0c0d0e0f10"
	testSpan  = "1112131415161718"
)

var testRef = format.SpanRef{
	TraceID: [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
	SpanID:  [8]byte{0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18},
}

// location returns a location with a line for each of the names, innermost first.
func location(names ...string) *profile.Location {
	l := &profile.Location{Address: 0xbeef}
	for i, name := range names {
		l.Line = append(l.Line, profile.Line{Function: &profile.Function{Name: name, Filename: "f.go"}, Line: int64(i + 1)})
	}
	return l
}

func TestGroups(t *testing.T) {
	a, b := location("main.f", "main.g"), location("main.f", "main.g") // two addresses of the same line
	b.Address++
	c := location("main.h")
	with := func(name, value string) map[string][]string { return map[string][]string{name: {value}} }
	p := &profile.Profile{
		Location: []*profile.Location{a, b, c},
		Sample: []*profile.Sample{
			{Location: []*profile.Location{a, c}, Value: []int64{1, 10}},
			{Location: []*profile.Location{b, c}, Value: []int64{2, 20}},
			{Location: []*profile.Location{c, a}, Value: []int64{4, 40}},
			{Location: []*profile.Location{a, c}, Value: []int64{8, 80}, Label: with("k", "v")},
			{Location: []*profile.Location{b, c}, Value: []int64{16, 160}, Label: with("k", "v")},
			{Location: []*profile.Location{a, c}, Value: []int64{32, 320}, Label: with("k", "w")},
			{Location: []*profile.Location{a, c}, Value: []int64{64, 640}, Label: with("kv", "")},
			{Value: []int64{128}},
		},
	}
	var got []string
	for _, g := range groups(p) {
		got = append(got, fmt.Sprintf("%d/%d %q %v", g.values[0], g.values[1], g.stack(), g.labels))
	}
	stack := `"main.f f.go:1\nmain.g f.go:2\nmain.h f.go:1"`
	want := []string{
		"3/30 " + stack + " []", `4/40 "main.h f.go:1\nmain.f f.go:1\nmain.g f.go:2" []`,
		"24/240 " + stack + " [{k v}]", "32/320 " + stack + " [{k w}]", "64/640 " + stack + " [{kv }]", `128/0 "" []`,
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("groups\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestLabels(t *testing.T) {
	tests := []struct {
		name   string
		labels map[string][]string
		ref    format.SpanRef
		want   string
	}{
		{"none", nil, format.SpanRef{}, "[]"},
		{"span", map[string][]string{"trace_id": {testTrace}, "span_id": {testSpan}, "b": {"2"}, "a": {"1"}}, testRef, "[{a 1} {b 2}]"},
		{"no trace", map[string][]string{"span_id": {testSpan}}, format.SpanRef{}, "[{span_id " + testSpan + "}]"},
		{"too short", map[string][]string{"trace_id": {testTrace}, "span_id": {testSpan[1:]}}, format.SpanRef{}, "[{span_id " + testSpan[1:] + "} {trace_id " + testTrace + "}]"},
		{"no digits", map[string][]string{"trace_id": {testTrace}, "span_id": {"x112131415161718"}}, format.SpanRef{}, "[{span_id x112131415161718} {trace_id " + testTrace + "}]"},
		{"zero", map[string][]string{"trace_id": {testTrace}, "span_id": {"0000000000000000"}}, format.SpanRef{}, "[{span_id 0000000000000000} {trace_id " + testTrace + "}]"},
		{"two values", map[string][]string{"a": {"1", "2"}}, format.SpanRef{}, "[{a 1,2}]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			labels, ref := labelsOf(&profile.Sample{Label: tt.labels})
			if got := fmt.Sprint(labels); got != tt.want || ref != tt.ref {
				t.Errorf("labels %s, ref %v, want %s, %v", got, ref, tt.want, tt.ref)
			}
		})
	}
}

func TestLabelBounds(t *testing.T) {
	many := map[string][]string{}
	for i := range 100 {
		many[fmt.Sprintf("%02d", i)+strings.Repeat("ä", 1000)] = []string{strings.Repeat("ö", 1000)}
	}
	labels, _ := labelsOf(&profile.Sample{Label: many})
	expect.Equal(t, len(labels), maxLabels, "labels")
	for _, l := range labels {
		if len(l.name) > maxLabelName || len(l.value) > maxLabelValue || !utf8.ValidString(l.name) || !strings.HasSuffix(l.value, "…") {
			t.Errorf("label of %d bytes: %q", len(l.value), l.name)
		}
	}
}

func TestStackBounds(t *testing.T) {
	frames := func(n int, name string) *group {
		g := &group{}
		for range n {
			g.locations = append(g.locations, location(name, name))
		}
		return g
	}
	tests := []struct {
		name  string
		g     *group
		lines int
		cut   bool
	}{
		{"empty", &group{}, 1, false},
		{"as many as there may be", frames(maxFrames/2, "main.f"), maxFrames, false},
		{"one more", &group{locations: append(frames(maxFrames/2, "main.f").locations, location("main.f"))}, maxFrames + 1, true},
		{"long names", frames(10, strings.Repeat("x", 2000)), 5, true},
		{"one long name", frames(1, strings.Repeat("x", 9000)), 1, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.g.stack()
			if len(s) > maxStackBytes || strings.Count(s, "\n")+1 != tt.lines || strings.HasSuffix(s, "…") != tt.cut {
				t.Errorf("%d bytes, %d lines, want %d, the end is %q", len(s), strings.Count(s, "\n")+1, tt.lines, s[max(0, len(s)-20):])
			}
		})
	}
	expect.Equal(t, (&group{locations: []*profile.Location{{Address: 0xabc}}}).stack(), "0xabc", "a location without names")
}

func TestFunction(t *testing.T) {
	tests := []struct {
		names []string
		want  string
	}{
		{[]string{"runtime.gopark", "runtime.chanrecv", "main.main"}, "main.main"},
		{[]string{"runtime.gopark", "internal/poll.(*FD).Read", "syscall.Read", "net.(*conn).Read", "main.f"}, "net.(*conn).Read"},
		{[]string{"runtime.gopark", "sync.(*Mutex).Lock", "internal/sync.(*Mutex).lockSlow", "a.example/sync.F[...]"}, "a.example/sync.F[...]"},
		{[]string{"time.Sleep", "main.F[a/b.T]"}, "main.F[a/b.T]"},
		{[]string{"runtime.gopark", "runtime.bgsweep"}, "runtime.gopark"},
		{[]string{"golang.org/x/sys/unix.Read", "epoll_wait", "golang.org/x/sync/errgroup.(*Group).Wait"}, "golang.org/x/sync/errgroup.(*Group).Wait"},
		{nil, "unknown function"},
	}
	for _, tt := range tests {
		expect.Equal(t, (&group{locations: []*profile.Location{location(tt.names...)}}).function(texts.OfApplication), tt.want, "function of %v", tt.names)
	}
}

// many returns n groups. One of them has a span.
func many(n int) []*group {
	all := make([]*group, n)
	for i := range all {
		all[i] = &group{locations: []*profile.Location{location(fmt.Sprintf("main.f%d", i))}, values: [2]int64{int64(i + 1), 10}, key: fmt.Sprint(i)}
	}
	all[5].ref = testRef
	return all
}

func TestGoroutinesBound(t *testing.T) {
	r := &record{}
	must(t, writeGoroutines(t.Context(), r.session(control.Goroutines, nil), time.Unix(1, 0), many(maxStacks+10)))
	expect.MustEqual(t, len(r.entries), maxStacks+1, "entries")
	if first := r.entries[0]; first.ref != testRef || first.u64(t, "count") != 6 {
		t.Errorf("the first is %v, want the one with a span", first)
	}
	if second := r.entries[1]; second.u64(t, "count") != maxStacks+10 {
		t.Errorf("the second has %d, want the most", second.u64(t, "count"))
	}
	// The groups with the counts 1 to 11 are left out, except 6, which has a span.
	last := r.entries[maxStacks]
	if last.Message.Value != "10 more stacks" || last.u64(t, attrLeftOut) != 10 || last.u64(t, "count") != 66-6 || last.has("stack") {
		t.Errorf("the last is %+v", last.TraceEntry)
	}
}

func TestGoroutinesContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	s := control.NewSession(control.Goroutines, nil, func(control.Set, format.SpanRef, time.Time, *format.TraceEntry) error {
		n++
		if n == 3 {
			cancel()
		}
		return nil
	})
	if err := writeGoroutines(ctx, s, time.Now(), many(10)); !errors.Is(err, context.Canceled) || n != 3 {
		t.Errorf("%v after %d entries, want context.Canceled after 3", err, n)
	}
	if err := dumpGoroutines(ctx, s); !errors.Is(err, context.Canceled) || n != 3 {
		t.Errorf("Dump gives %v after %d entries", err, n)
	}
}

func TestCPUBound(t *testing.T) {
	r := &record{}
	c := &cpuProfile{session: r.session(control.CPUProfile, nil)}
	must(t, c.write(many(maxCPUStacks+3), time.Unix(1, 0), time.Second))
	expect.MustEqual(t, len(r.entries), maxCPUStacks+1, "entries")
	if n := r.entries[0].u64(t, "samples"); n != maxCPUStacks+3 {
		t.Errorf("the first has %d samples, want the most", n)
	}
	last := r.entries[maxCPUStacks]
	if last.Message.Value != "3 more stacks" || last.u64(t, "samples") != 6 || last.u64(t, "cpu_nano") != 30 || last.u64(t, attrLeftOut) != 3 || last.u64(t, "window_nano") != 1e9 {
		t.Errorf("the last is %+v", last.TraceEntry)
	}
}

func TestParseProfileHostile(t *testing.T) {
	pack := func(b []byte) []byte {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		w.Write(b)
		w.Close()
		return z.Bytes()
	}
	for name, data := range map[string][]byte{
		"empty": nil, "no gzip": []byte("xxxxxxxxxxxxxxxxx"), "nothing packed": pack(nil), "no proto": pack([]byte("heap profile: ")),
		"cut": pack(make([]byte, 99))[:20], "bomb": pack(make([]byte, maxProfileBytes+1)),
	} {
		if g, err := parseProfile(data); err == nil {
			t.Errorf("%s: %d groups and no error", name, len(g))
		}
	}
}

// FuzzProfile checks that parsing does not panic, and that texts are within their limits.
func FuzzProfile(f *testing.F) {
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}}}
	l := location("main.f")
	l.ID, l.Line[0].Function.ID = 1, 1
	p.Location, p.Function = []*profile.Location{l}, []*profile.Function{l.Line[0].Function}
	p.Sample = []*profile.Sample{{Location: p.Location, Value: []int64{1}, Label: map[string][]string{"span_id": {testSpan}, "trace_id": {testTrace}, "k": {"v"}}}}
	var b bytes.Buffer
	must(f, p.WriteUncompressed(&b))
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := parsePlain(b)
		if err != nil {
			return
		}
		for _, g := range all {
			if s := g.stack(); len(s) > maxStackBytes || len(g.labels) > maxLabels {
				t.Errorf("%d bytes of stack, %d labels", len(s), len(g.labels))
			}
			g.function(texts.OfApplication)
		}
	})
}
