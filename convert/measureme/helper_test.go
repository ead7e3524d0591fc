package measureme

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/converttest"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

// A row is an event as measureme's tool analyzeme prints it.
type row struct {
	Kind, Label string
	Args        []string
	Thread      uint32
	Start, End  uint64
	At, Value   uint64
}

func (r row) String() string {
	b, _ := json.Marshal(r)
	return string(b)
}

func sorted(rows []row) []string {
	texts := make([]string, len(rows))
	for i, r := range rows {
		texts[i] = r.String()
	}
	slices.Sort(texts)
	return texts
}

// diff compares two lists of events in any order.
func diff(t *testing.T, got, want []row) {
	t.Helper()
	expect.Equal(t, len(got), len(want), "events")
	ours, theirs := sorted(got), sorted(want)
	for i := range min(len(ours), len(theirs)) {
		expect.MustEqual(t, ours[i], theirs[i], "event %d", i)
	}
}

var toOTLP = converttest.Format{
	Decode: Decode,
	Encode: func(ctx context.Context, w io.Writer, v *view.View) error { return otlp.Encode(ctx, w, v, nil) },
}

func TestSamples(t *testing.T) { toOTLP.Samples(t, "gold.mm_profdata") }

// decode decodes a profile and returns a view of the trace.
func decode(t testing.TB, profile []byte) (*view.View, error) {
	t.Helper()
	return decodeFrom(t, bytes.NewReader(profile))
}

func decodeFrom(t testing.TB, r io.Reader) (*view.View, error) {
	t.Helper()
	iet, err := toOTLP.Back(t.Context(), t, r, format.V2)
	name := hosttest.Path(t, "trace.iet")
	must(t, os.WriteFile(name, iet, 0o600))
	return converttest.Open(t, name), err
}

func mustDecode(t testing.TB, profile []byte) *view.View {
	t.Helper()
	v, err := decode(t, profile)
	must(t, err)
	return v
}

// rows returns the events of the profile from which v was made.
func rows(t testing.TB, v *view.View) []row {
	t.Helper()
	var rows []row
	for id := range v.Rows() {
		role := v.Role(id)
		if role == view.RoleRoot || role == view.RoleResource {
			continue
		}
		e, err := v.Entry(id)
		must(t, err)
		r := row{Args: []string{}, Label: e.Metadata.Name}
		if e.Message.Valid {
			r.Label = e.Message.Value
		}
		at := uint64(0)
		if when, ok := v.Time(id); ok {
			at = uint64(when.UnixNano())
		}
		number := func(name string) uint64 {
			v, _ := e.Attribute(name)
			n, _ := v.U64()
			return n
		}
		kind, _ := e.Attribute(attrKind)
		r.Kind, r.Thread = kind.Text(), uint32(number(attrThread))
		for n := 0; ; n++ {
			arg, ok := e.Attribute(attrArg + strconv.Itoa(n))
			if !ok {
				break
			}
			r.Args = append(r.Args, arg.Text())
		}
		_, hasValue := e.Attribute(attrValue)
		switch {
		case role == view.RoleSpan:
			r.Start, r.End = at, at+number(format.AttrDuration)
		case hasValue:
			r.Value = number(attrValue)
		case role == view.RoleEvent || role == view.RoleLog:
			r.At = at
		default:
			t.Errorf("entry %d is a %v", id, role)
		}
		rows = append(rows, r)
	}
	return rows
}

// theirs reads events that analyzeme has printed.
func theirs(t testing.TB, name string) []row {
	t.Helper()
	var rows []row
	for line := range strings.Lines(string(read(t, name))) {
		var r row
		must(t, json.Unmarshal([]byte(line), &r))
		rows = append(rows, r)
	}
	return rows
}

var (
	must = expect.Must
	read = tracetest.ReadFile
)

// sample reads a file that is not a part of the project. It skips the test if the file is missing.
func sample(t testing.TB, name string) []byte {
	t.Helper()
	dir := os.Getenv("ENTRACE_SAMPLES")
	if dir == "" {
		t.Skip("ENTRACE_SAMPLES is not set")
	}
	return read(t, filepath.Join(dir, "measureme", name))
}

// selfTimes returns for each label the number of its spans and their self time, which is their time without their
// direct children on the same thread.
func selfTimes(t testing.TB, v *view.View) map[string][2]uint64 {
	t.Helper()
	type span struct {
		label    string
		thread   string
		duration uint64
	}
	spans := make(map[uint32]span)
	times := make(map[string][2]uint64)
	for id := range v.Rows() {
		if v.Role(id) != view.RoleSpan {
			continue
		}
		e, err := v.Entry(id)
		must(t, err)
		thread, _ := e.Attribute(attrThread)
		d, _ := e.Attribute(format.AttrDuration)
		n, _ := d.U64()
		s := span{e.Metadata.Name, string(thread.AppendDecimal(nil)), n}
		spans[uint32(id)] = s
		sum := times[s.label]
		times[s.label] = [2]uint64{sum[0] + 1, sum[1] + n}
		if up, ok := spans[uint32(v.Parent(id))]; ok && up.thread == s.thread {
			sum := times[up.label]
			times[up.label] = [2]uint64{sum[0], sum[1] - n}
		}
	}
	return times
}

// reverse computes self times as the tools do: it reads the records backwards.
func reverse(t testing.TB, profile []byte) map[string][2]uint64 {
	t.Helper()
	s := scanned(t, profile)
	table := newStringTable(s)
	type open struct {
		label      string
		start, end uint64
	}
	stacks := make(map[uint32][]open)
	times := make(map[string][2]uint64)
	for i := int64(s.events.Len()) - 1; i >= 0; i-- {
		e := s.event(i)
		if e.second() >= markInteger {
			continue
		}
		text, err := table.text(e.id)
		must(t, err)
		label, _, _ := strings.Cut(text, string(separator))
		o := open{label, e.first(), e.second()}
		stack := stacks[e.thread]
		for len(stack) > 0 && (stack[len(stack)-1].start > o.start || stack[len(stack)-1].end < o.end) {
			stack = stack[:len(stack)-1]
		}
		sum := times[label]
		times[label] = [2]uint64{sum[0] + 1, sum[1] + o.end - o.start}
		if len(stack) > 0 {
			up := stack[len(stack)-1].label
			sum := times[up]
			if int64(sum[1]-(o.end-o.start)) < 0 {
				t.Fatalf("record %d: the children of %q take longer than it", i, up)
			}
			times[up] = [2]uint64{sum[0], sum[1] - (o.end - o.start)}
		}
		stacks[e.thread] = append(stack, o)
	}
	return times
}

// scanned scans a whole profile.
func scanned(t testing.TB, profile []byte) *scanner {
	t.Helper()
	s := &scanner{ctx: context.Background(), b: profile, progress: func(int64) {}}
	must(t, s.scan())
	return s
}
