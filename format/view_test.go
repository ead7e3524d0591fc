package format_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
)

// spanEntry returns the view's entry of the span of that name.
func spanEntry(t *testing.T, f *format.File, name string) *format.TraceEntry {
	t.Helper()
	v, err := format.NewView(f)
	must(t, err)
	for id := range uint32(v.Len()) {
		if e, err := v.Entry(id); err == nil && e.Metadata.Name == name {
			if v.Role(id) != format.RoleSpan {
				t.Errorf("%s is a %v, want a span", name, v.Role(id))
			}
			return e
		}
	}
	t.Fatalf("there is no %s", name)
	return nil
}

// TestViewOfEitherOrder writes a child live before its parent and after it: the
// view shows the same.
func TestViewOfEitherOrder(t *testing.T) {
	for _, v := range []format.Version{format.V1, format.V2} {
		var seen []string
		for _, order := range [][]int{{0, 1}, {1, 0}} {
			rec := create(t, "app.et", &format.RecorderOptions{Version: v})
			spans := []*format.Span{span("parent", 1, 0), span("child", 2, 1)}
			for _, i := range order {
				spans[i].Wait = false
				must(t, rec.WriteSpan(spans[i]))
			}
			closeRecorder(t, rec)
			e := spanEntry(t, open(t, rec.Path()), "child")
			e.Parent = 0 // ids are of the order
			format.SortAttributes(e.Attributes)
			seen = append(seen, string(format.AppendJSON(nil, 0, e)))
		}
		if seen[0] != seen[1] || strings.Contains(seen[0], format.AttrParentSpanID) {
			t.Errorf("version %d: the child is\n%s or\n%s", v, seen[0], seen[1])
		}
	}
}

// TestViewStatus ends spans whose status changed in between.
func TestViewStatus(t *testing.T) {
	status := func(code, description string) []format.Attribute {
		a := []format.Attribute{{Name: format.AttrStatusCode, Value: format.StringValue(code)}}
		if description != "" {
			a = append(a, format.Attribute{Name: format.AttrStatusDescription, Value: format.StringValue(description)})
		}
		return a
	}
	rec := create(t, "app.et", nil)
	s := span("mended", 1, 0)
	s.Open, s.Wait = true, false
	s.Entry.Metadata.Level = format.LevelError
	s.Entry.Attributes = append(s.Entry.Attributes, status("ERROR", "x")...)
	must(t, rec.WriteSpan(s))
	end := named(format.NameSpanEnd)
	end.Attributes = append([]format.Attribute{s.Entry.Attributes[0]}, status("OK", "")...)
	must(t, rec.EndSpan(s.Ref, nil, end))
	closeRecorder(t, rec)
	e := spanEntry(t, open(t, rec.Path()), "mended")
	code, _ := e.Attribute(format.AttrStatusCode)
	_, described := e.Attribute(format.AttrStatusDescription)
	if e.Metadata.Level != format.LevelInfo || code.Text() != "OK" || described {
		t.Errorf("the span is %v, %s, described: %t; want INFO, OK, false", e.Metadata.Level, code.Text(), described)
	}
}

// TestFarTimes: a span stays one, whatever its clock says.
func TestFarTimes(t *testing.T) {
	for _, at := range []time.Time{{}, time.Date(1000, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(-1, 5), time.Unix(0, 0), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)} {
		rec := create(t, "app.et", nil)
		s := span("span", 1, 0)
		s.Entry.Attributes[1].Value = format.TimeValue(at)
		must(t, rec.WriteSpan(s))
		closeRecorder(t, rec)
		spanEntry(t, open(t, rec.Path()), "span")
	}
	if got, want := string(format.TimeValue(time.Unix(-1, 5)).AppendDecimal(nil)), "-999999995"; got != want {
		t.Errorf("a second before 1970 is %s, want %s", got, want)
	}
}

// TestNilRecorder: that of a Create that failed does no harm.
func TestNilRecorder(t *testing.T) {
	rec, err := format.Create(filepath.Join(t.TempDir(), "missing", "app.et"), nil)
	if err == nil || rec != nil {
		t.Fatalf("Create: %v, %v", rec, err)
	}
	if !rec.Discards() {
		t.Error("Discards is false")
	}
	if _, err := rec.Append(named("x")); err != nil {
		t.Error(err)
	}
	must(t, rec.Log(spanRef(1, 1), named("event")))
	must(t, rec.Close(t.Context()))
}

func TestCloseNilContext(t *testing.T) {
	rec := create(t, "app.et", nil)
	must(t, rec.Close(nil)) //nolint:staticcheck // callers do
	if f := open(t, rec.Path()); f.Len() != 2 {
		t.Errorf("%d entries, want 2", f.Len())
	}
}

// TestLongNames are refused before anything is recorded, or work to the end.
func TestLongNames(t *testing.T) {
	dir := t.TempDir()
	for n := 190; n < 260; n++ {
		path := filepath.Join(dir, strings.Repeat("x", n-3)+".et")
		for range 2 {
			rec, err := format.Create(path, nil)
			if err != nil {
				continue
			}
			closeRecorder(t, rec)
			must(t, os.Chtimes(path, time.Time{}, time.Unix(int64(n), 0)))
		}
		if _, err := os.Stat(path); (err == nil) != (n < 200) {
			t.Errorf("a name of %d bytes: %v", n, err)
		}
	}
}
