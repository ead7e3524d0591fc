package tracetest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/view"
)

// Tree returns a line for each entry of a file, as its parents are in the file, without the root and the recorder's own
// entry at the end.
func Tree(t testing.TB, f *format.File) string {
	return tree(f, func(id uint32) string {
		e, err := f.Entry(id)
		expect.Must(t, err)
		return Line(e)
	}, 0, "")
}

// ViewTree is like Tree, but for the rows of a view. It sorts the attributes. A more that is not nil returns a text to add
// to the line of a row.
func ViewTree(t testing.TB, v *view.View, more func(r view.Row, e *format.TraceEntry) string) string {
	return tree(v, func(r view.Row) string {
		e, err := v.Entry(r)
		expect.Must(t, err)
		format.SortAttributes(e.Attributes)
		line := Line(e)
		if more != nil {
			line += more(r, e)
		}
		return line
	}, 0, "")
}

func tree[ID uint32 | view.Row](f interface{ Children(id ID) []ID }, line func(ID) string, id ID, indent string) string {
	var b strings.Builder
	for _, kid := range f.Children(id) {
		if text := line(kid); !strings.HasPrefix(text, mapping.NameEnd) {
			b.WriteString(indent + text + "\n" + tree(f, line, kid, indent+"  "))
		}
	}
	return b.String()
}

// Line returns a line for an entry: its message or its name, its level if it is not INFO, its place in the source, and its
// attributes. A value without a kind is an I64 or, in quotes, a String. Line omits places in tests and the present time. Of
// long texts and lists it prints the ends.
func Line(e *format.TraceEntry) string {
	var b strings.Builder
	m := &e.Metadata
	inTest := strings.Contains(m.Target, "_test")
	head := m.Name
	if e.Message.Valid {
		head = ends(e.Message.Value)
	}
	b.WriteString(strings.Trim(strconv.Quote(head), `"`) + ":")
	if m.Level != format.LevelInfo {
		b.WriteString(" " + m.Level.String())
	}
	if m.File.Valid && !inTest {
		fmt.Fprintf(&b, " at %s:%d", m.File.Value, m.Line.Value)
	}
	if e.Message.Valid && !inTest {
		fmt.Fprintf(&b, " (%s)", m.Name)
	}
	if m.Target != "" && !inTest {
		fmt.Fprintf(&b, " of %s", m.Target)
	}
	if m.ModulePath.Valid {
		fmt.Fprintf(&b, " in %s", m.ModulePath.Value)
	}
	list, left := e.Attributes, 0
	for i := range list {
		if at, _ := list[i].Value.I64(); list[i].Name == format.AttrTime && time.Since(time.Unix(0, at)).Abs() < time.Hour {
			list = append(list[:i:i], list[i+1:]...)
			break
		}
	}
	const most = 60
	if len(list) > most {
		left = len(list) - most/2
	}
	for i, a := range list {
		switch {
		case left > 0 && i == most/4:
			fmt.Fprintf(&b, " …%d attributes…", left)
			fallthrough
		case left > 0 && i > most/4 && i < most/4+left:
			continue
		}
		fmt.Fprintf(&b, " %s=%s", ends(a.Name), Value(a.Value))
	}
	return b.String()
}

// Value returns the text of a value as [Line] prints it.
func Value(v format.Value) string {
	kind, text := v.Kind(), v.String()
	if kind <= format.KindBytes {
		text = fmt.Sprintf("%#q", ends(v.Text()))
	}
	if kind == format.KindString || kind == format.KindI64 {
		return text
	}
	return strings.ToLower(kind.String()) + " " + text
}

// ends returns the beginning and the end of a long text, and the number of bytes between them.
func ends(s string) string {
	const most, end = 1000, 16
	if len(s) <= most {
		return s
	}
	from, to := end, len(s)-end
	for !utf8.RuneStart(s[from]) {
		from++
	}
	for !utf8.RuneStart(s[to]) {
		to--
	}
	return fmt.Sprintf("%s…%d bytes…%s", s[:from], to-from, s[to:])
}
