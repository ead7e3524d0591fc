package view_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

// A snapshot has the entries of a test file, like the file of a flight recorder.
type snapshot struct {
	pid     int
	service string
	entries []*format.TraceEntry
	open    map[int]uint32 // by the number of a span: the id of its entry
}

func newSnapshot(pid int, service string) *snapshot {
	s := &snapshot{pid: pid, service: service, open: make(map[int]uint32)}
	s.add(format.Root())
	own := tracetest.Entry(mapping.NameTrace)
	if pid > 0 {
		own.Attributes = tracetest.Attributes(mapping.AttrProcessID, uint64(pid), mapping.AttrHostName, "host")
	}
	s.add(own)
	s.add(tracetest.Resource(service, "service.name", service))
	return s
}

func (s *snapshot) add(e *format.TraceEntry) uint32 {
	s.entries = append(s.entries, e)
	return uint32(len(s.entries) - 1)
}

// span adds a span below another span, or below the resource if the snapshot does not have the other span.
func (s *snapshot) span(number, above int) *snapshot {
	e := spanEntry(2, number)
	if up, ok := s.open[above]; ok {
		e.Parent = up
	} else if above > 0 {
		e.Add(format.AttrParentSpanID, hexID(above, 8))
	}
	e.Metadata.Name = fmt.Sprint("span ", number)
	s.open[number] = s.add(e)
	return s
}

func (s *snapshot) end(number int) *snapshot {
	s.add(tracetest.Below(s.open[number], tracetest.Entry(format.NameSpanEnd, format.AttrSpanID, hexID(number, 8), format.AttrDuration, uint64(1000))))
	return s
}

// log adds a log record with a time to a span, or to no span if the number is 0.
func (s *snapshot) log(span int, at int, text string) *snapshot {
	e := tracetest.Below(2, tracetest.Log(text, format.AttrTime, uint64(at)))
	if up, ok := s.open[span]; ok {
		e.Parent = up
	} else if span > 0 {
		e.Attributes = append(e.Attributes, tracetest.Attributes(format.AttrTraceID, hexID(1, 16), format.AttrSpanID, hexID(span, 8))...)
	}
	s.add(e)
	return s
}

// exceptions adds two equal exceptions to a span.
func (s *snapshot) exceptions(span int) *snapshot {
	for range 2 {
		s.add(&format.TraceEntry{Parent: s.open[span], Metadata: format.Metadata{Name: mapping.NameException, Level: format.LevelError}, Attributes: tracetest.Attributes(mapping.AttrEvent, true, format.AttrTime, uint64(120))})
	}
	return s
}

// outline lists the spans, log records and events of a view, each with its parent.
func outline(v *view.View) string {
	title := func(r view.Row) string {
		if s, ok := v.Message(r); ok {
			return s
		}
		return v.Name(r)
	}
	var lines []string
	_ = v.Walk(0, func(r view.Row, _ int, _ bool) error {
		switch f := v.Flags(r); f.Role() {
		case view.RoleSpan, view.RoleLog, view.RoleEvent:
			line := title(v.Parent(r)) + " > " + title(r)
			if f.Open() {
				line += " open"
			}
			if f.Failed() {
				line += " failed"
			}
			lines = append(lines, line)
		}
		return nil
	})
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// overlapping returns a snapshot of process 7 with the service shop, and a later snapshot that lacks the oldest
// records. The arguments are the process id and the service of the later one: 7 and "shop" make it a snapshot of
// the same process.
func overlapping(pid int, service string) (first, second *snapshot) {
	first = newSnapshot(7, "shop").
		log(0, 90, "same").log(0, 90, "same").
		span(100, 0).log(100, 110, "working").
		span(101, 100).exceptions(101).end(101).
		span(102, 100).log(102, 200, "goroutines")
	second = newSnapshot(pid, service).
		log(0, 90, "same").log(0, 90, "same").log(0, 90, "same").
		log(100, 110, "working").
		span(101, 100).exceptions(101).end(101).
		span(102, 100).log(102, 300, "goroutines").end(102).
		span(103, 102).log(103, 310, "later")
	return first, second
}

const together = `shop > same
shop > same
shop > same
shop > span 100 open
span 100 > span 101 failed
span 100 > span 102
span 100 > working
span 101 > exception
span 101 > exception
span 102 > goroutines
span 102 > goroutines
span 102 > span 103 open
span 103 > later`

// TestSnapshotsOfOneProcess checks that copies in several files of one process become one row, with
// the information from all files.
func TestSnapshotsOfOneProcess(t *testing.T) {
	first, second := overlapping(7, "shop")
	for _, versions := range [][2]format.Version{{1, 1}, {1, 2}, {2, 1}} {
		a, b := write(t, versions[0], format.ET, sorted(first.entries)), write(t, versions[1], format.IET, sorted(second.entries))
		for _, files := range [][]*format.File{{a, b}, {b, a}, {a, b, a}, {b, a, b, a}} {
			v := viewOf(t, files...)
			expect.Equal(t, outline(v), together, "the rows of %d files", len(files))
			for _, r := range v.Children(0) {
				if v.Role(r) == view.RoleResource && len(v.Children(r)) == 0 {
					t.Errorf("the resource at row %d of %d files is empty", r, len(files))
				}
			}
			seen, folded := 0, 0
			for r := range v.Rows() {
				if columns.Of(v).IsCopy(uint32(r)) {
					folded++
				} else if v.Role(r) != view.RoleFolded {
					seen++
				}
			}
			if folded != v.Copies() || seen+folded != v.Len() || v.Tree().Len() != seen {
				t.Errorf("%d of %d rows are copies, and %d in the tree; Copies says %d", folded, v.Len(), seen, v.Copies())
			}
			if len(files) == 2 && v.Copies() != 8 {
				t.Errorf("%d rows are copies, want 8", v.Copies())
			}
		}
		if v := viewOf(t, b); v.Copies() != 0 || strings.Count(outline(v), "> same") != 3 {
			t.Errorf("in one file %d rows are copies:\n%s", v.Copies(), outline(v))
		}
	}
}

// sorted returns the entries with their attributes in the order of version 2.
func sorted(entries []*format.TraceEntry) []*format.TraceEntry {
	var all []*format.TraceEntry
	for _, e := range entries {
		c := e.Clone()
		format.SortAttributes(c.Attributes)
		all = append(all, c)
	}
	return all
}

// TestOtherProcessesHaveNoCopies checks that files have no copies if they name different processes
// or have different resources.
func TestOtherProcessesHaveNoCopies(t *testing.T) {
	for _, c := range []struct {
		name    string
		pid     int
		service string
		copies  int
	}{
		{"the same", 7, "shop", 8},
		{"one that says no process", 0, "shop", 8},
		{"another process", 8, "shop", 0},
		{"another resource", 7, "stock", 0},
	} {
		first, second := overlapping(c.pid, c.service)
		v := viewOf(t, write(t, format.V1, format.ET, first.entries), write(t, format.V1, format.ET, second.entries))
		expect.Equal(t, v.Copies(), c.copies, "%s: copies", c.name)
	}
}

// TestEqualLogRecordsOfServices checks that equal log records with the same time are copies only if
// one process wrote them.
func TestEqualLogRecordsOfServices(t *testing.T) {
	entries := newSnapshot(0, "shop").log(0, 90, "tick").entries
	entries[1] = tracetest.Entry("a")
	v := viewOf(t, write(t, format.V1, format.ET, entries), write(t, format.V1, format.ET, entries))
	expect.Equal(t, v.Copies(), 0, "log records of files that nothing joins are copies")
}

// TestOpenForUntilItsOwnFileEnds checks that a span that has not ended is open until the end of the
// files that contain it, even if other files end later.
func TestOpenForUntilItsOwnFileEnds(t *testing.T) {
	first, second := overlapping(7, "shop")
	later := newSnapshot(8, "shop").span(5000, 0).log(0, 9000, "much later")
	files := []*format.File{write(t, format.V1, format.ET, first.entries), write(t, format.V1, format.ET, second.entries), write(t, format.V1, format.ET, later.entries)}
	want := map[string]string{"span 100": "1.001µs", "span 103": "999ns", "span 5000": "4µs"} // 101 and 102 took 1 µs
	v := viewOf(t, files...)
	for r := range v.Rows() {
		if d, open := v.OpenFor(r); open != (want[v.Name(r)] != "" && v.Role(r) == view.RoleSpan) || open && d.String() != want[v.Name(r)] {
			t.Errorf("%s is open (%t) for %v, want %s", v.Name(r), open, d, want[v.Name(r)])
		}
	}
}

// TestSpanGoesOnIfAllItsFilesAreRotated checks that an open span continues if the recorder continued each of the
// span's files in another file.
func TestSpanGoesOnIfAllItsFilesAreRotated(t *testing.T) {
	part := func(rotated bool) *format.File {
		s := newSnapshot(7, "shop").span(100, 0).span(101, 0).end(101)
		s.add(tracetest.Entry(mapping.NameEnd, mapping.AttrRotated, rotated))
		return write(t, format.V1, format.ET, s.entries)
	}
	for _, x := range []struct {
		files []*format.File
		want  bool
	}{
		{[]*format.File{part(true)}, true},
		{[]*format.File{part(false)}, false},
		{[]*format.File{part(true), part(true)}, true},
		{[]*format.File{part(true), part(false)}, false},
		{[]*format.File{part(false), part(true)}, false},
	} {
		v, spans := viewOf(t, x.files...), 0
		for r := range v.Rows() {
			if v.Role(r) != view.RoleSpan {
				expect.Equal(t, v.GoesOn(r), false, "row %d, which is no span, goes on", r)
				continue
			}
			spans++
			expect.Equal(t, v.GoesOn(r), x.want && v.Name(r) == "span 100", "in %d files, %s goes on", len(x.files), v.Name(r))
		}
		expect.Equal(t, spans, 2, "spans of %d files", len(x.files))
	}
}

// TestCopiesInGrowingFiles checks that a view of growing files ends up equal to a new view of the
// final files.
func TestCopiesInGrowingFiles(t *testing.T) {
	first, second := overlapping(7, "shop")
	for _, turns := range []int{1, 2, 5} {
		a, b := grow(t, format.V1, format.IET), grow(t, format.V1, format.IET)
		a.add(first.entries[:3]...)
		b.add(second.entries[0])
		v := viewOf(t, a.file, b.file)
		for len(a.entries) < len(first.entries) || len(b.entries) < len(second.entries) {
			if rest := first.entries[len(a.entries):]; len(rest) > 0 && len(b.entries)%turns == 0 {
				a.add(rest[:min(turns, len(rest))]...)
			}
			if rest := second.entries[len(b.entries):]; len(rest) > 0 {
				b.add(rest[0])
			}
			next, err := v.Extend(t.Context())
			must(t, err)
			v = next
		}
		expect.Equal(t, outline(v), together, "with %d at once the rows", turns)
	}
}
