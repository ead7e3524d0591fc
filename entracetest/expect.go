package entracetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/read/interest"
	"github.com/entrace-go/entrace/internal/read/show"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// A Row is a span, an event, a link or a log record.
type Row struct {
	Role     string // "span", "log", "event", "link" or "other"
	Name     string // the name of a span or an event
	Message  string // the message of a log record
	Level    format.Level
	Error    bool // whether the query { status = error } selects the row
	Start    time.Time
	Duration time.Duration // 0 if the span has not ended
	Ended    bool
	TraceID  string // in hexadecimal digits
	SpanID   string // the id of a span
	// Attributes are the user's attributes. Their values are the results of format.Value.Any; lists and maps are JSON
	// texts.
	Attributes map[string]any

	line string
}

// String returns the row's line in the tree.
func (r Row) String() string { return r.line }

// shown is the maximum number of rows in the text of a failure.
const shown = 5

// run runs a query.
func (tr *Trace) run(text string) (*query.Query, *view.View, []view.Row) {
	tr.t.Helper()
	q, err := query.Parse(text)
	if err != nil {
		tr.t.Fatalf("entracetest: %v", err)
	}
	if q.MakesTable() {
		tr.t.Fatalf("entracetest: %s makes a table, not rows", text)
	}
	v := tr.View()
	result, err := q.Run(context.Background(), v, nil)
	if err != nil {
		tr.t.Fatalf("entracetest: %s: %v", text, err)
	}
	rows := result.Order
	if rows == nil {
		rows = query.InTime(v, result.Rows)
	}
	return q, v, rows
}

// rows converts rows of v to Rows.
func rows(v *view.View, list []view.Row) []Row {
	p := newPrinter(v)
	all := make([]Row, 0, len(list))
	for _, r := range list {
		all = append(all, p.row(r))
	}
	return all
}

func (p *printer) row(r view.Row) Row {
	row := Row{Role: p.v.Role(r).String(), Error: p.v.Flags(r).IsError(), line: p.line(r), Attributes: make(map[string]any)}
	row.Start, _ = p.v.Time(r)
	row.Duration, row.Ended = p.v.Duration(r)
	if ref := p.v.Ref(r); ref.IsValid() {
		row.TraceID, row.SpanID = fmt.Sprintf("%x", ref.TraceID), fmt.Sprintf("%x", ref.SpanID)
	}
	if e, err := p.Read.WithoutIDs(r); err == nil {
		e = e.Clone()
		row.Name, row.Message, row.Level = e.Metadata.Name, e.Message.Value, e.Metadata.Level
		for _, a := range interest.Readable(e) {
			row.Attributes[a.Name] = a.Value.Any()
		}
	}
	return row
}

// Find returns the rows that a query selects, in the order of the query's sort(…), or in chronological order if the
// query does not sort.
func (tr *Trace) Find(text string) []Row {
	tr.t.Helper()
	_, v, list := tr.run(text)
	return rows(v, list)
}

// Expect fails the test if a query does not select exactly n rows. It returns the selected rows.
func (tr *Trace) Expect(text string, n int) []Row {
	tr.t.Helper()
	q, v, list := tr.run(text)
	if len(list) != n {
		tr.t.Error(tr.failure(q, v, list, len(list) < n, fmt.Sprintf("want %d", n)))
	}
	return rows(v, list)
}

// ExpectNone fails the test if a query selects any row.
func (tr *Trace) ExpectNone(text string) {
	tr.t.Helper()
	tr.Expect(text, 0)
}

// AtMost fails the test if a query selects more than n rows. For example, it limits the database queries of a
// request.
func (tr *Trace) AtMost(text string, n int) []Row {
	tr.t.Helper()
	q, v, list := tr.run(text)
	if len(list) > n {
		tr.t.Error(tr.failure(q, v, list, false, fmt.Sprintf("want at most %d", n)))
	}
	return rows(v, list)
}

// Within fails the test if a span that the query selects took longer than d or has not ended. It also fails the
// test if the query selects no span.
func (tr *Trace) Within(text string, d time.Duration) []Row {
	tr.t.Helper()
	q, v, list := tr.run(text)
	var late []view.Row
	for _, r := range list {
		if took, ended := v.Duration(r); !ended || took > d {
			late = append(late, r)
		}
	}
	switch {
	case len(list) == 0:
		tr.t.Error(tr.failure(q, v, list, true, "want one or more"))
	case len(late) > 0:
		tr.t.Error(tr.failure(q, v, late, false, fmt.Sprintf("longer than %v", d)))
	}
	return rows(v, list)
}

// Eventually waits until a query selects at least n rows. It fails the test if the query selects fewer rows after the
// time d.
func (tr *Trace) Eventually(text string, n int, d time.Duration) []Row {
	tr.t.Helper()
	const shortest = time.Millisecond
	longest := max(10*shortest, d/100) // within synctest, d may be hours
	deadline := time.Now().Add(d)
	for pause := shortest; ; pause = min(2*pause, longest) {
		q, v, list := tr.run(text)
		if len(list) >= n {
			return rows(v, list)
		}
		left := time.Until(deadline)
		if left <= 0 {
			tr.t.Error(tr.failure(q, v, list, true, fmt.Sprintf("want %d or more within %v", n, d)))
			return rows(v, list)
		}
		time.Sleep(min(pause, left))
	}
}

// failure returns the text of a failed assertion: the rows that the query selects, and, if few is set, rows that
// nearly fulfill the query.
func (tr *Trace) failure(q *query.Query, v *view.View, list []view.Row, few bool, want string) string {
	p := newPrinter(v)
	var b strings.Builder
	found := fmt.Sprintf("selects %d rows", len(list))
	if len(list) == 1 {
		found = "selects 1 row"
	}
	fmt.Fprintf(&b, "%s %s, %s", q, found, want)
	for i, r := range list {
		if i == shown {
			fmt.Fprintf(&b, "\n  … %d more", len(list)-shown)
			break
		}
		fmt.Fprintf(&b, "\n  %s", p.line(r))
	}
	if !few {
		return b.String()
	}
	near, err := q.Nearest(context.Background(), v, shown)
	if err != nil || len(near) == 0 {
		return b.String()
	}
	b.WriteString("\nthe nearest others:")
	for _, n := range near {
		fmt.Fprintf(&b, "\n  %s", p.line(n.Row))
		for _, failed := range n.Failed {
			fmt.Fprintf(&b, "\n    not %s", show.Safe(failed))
		}
	}
	return b.String()
}

// updateEnv is the environment variable that makes Golden write its files.
const updateEnv = "ENTRACE_UPDATE"

// Golden fails the test if the tree of the trace differs from the tree in a file. The tree omits times, ids, stacks,
// and the attributes named in leaveOut; its siblings are sorted. If ENTRACE_UPDATE is 1, or if the test program has a
// flag -update that is set, Golden writes the file instead.
func (tr *Trace) Golden(t testing.TB, file string, leaveOut ...string) {
	t.Helper()
	got := strings.Join(tr.tree(true, leaveOut), "\n") + "\n"
	if updates() {
		err := os.MkdirAll(filepath.Dir(file), 0o777) //nolint:gosec // a folder of the repository
		if err == nil {
			err = os.WriteFile(file, []byte(got), 0o666) //nolint:gosec // a file of the repository
		}
		if err != nil {
			t.Fatalf("entracetest: %v", err)
		}
		return
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("entracetest: %v; %s=1 go test writes the file", err, updateEnv)
	}
	if want := strings.ReplaceAll(string(b), "\r\n", "\n"); got != want {
		t.Errorf("the tree differs from %s; %s=1 go test updates the file; lines with - are missing, lines with + are new:\n%s", file, updateEnv, difference(want, got))
	}
}
