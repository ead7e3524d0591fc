package viewer_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/querytest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/view"
	"github.com/entrace-go/entrace/viewer"
)

var must = expect.Must

// viewOf returns the view of a file of entries.
func viewOf(t testing.TB, f format.StorageFormat, entries []*format.TraceEntry) *view.View {
	return tracetest.New(t, format.V2, f, entries...).View()
}

const token = "a-token"

func serve(t testing.TB, v *view.View, o viewer.Options) *viewer.Handler {
	t.Helper()
	o.Hosts = []string{"127.0.0.1:7"}
	o.Names = func(int) string { return "shop.et" }
	o.Authorize = func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer "+token }
	return viewer.New(v, &o)
}

// served returns a handler of a trace with entries.
func served(t testing.TB, entries []*format.TraceEntry) *viewer.Handler {
	t.Helper()
	return serve(t, viewOf(t, format.ET, entries), viewer.Options{})
}

func ask(h http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.Host = "127.0.0.1:7"
	r.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
			continue
		}
		r.Header.Set(header[i], header[i+1])
		if header[i+1] == "" {
			r.Header.Del(header[i])
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestDoor checks that the page has no data, and that a mounted handler answers only below its path.
func TestDoor(t *testing.T) {
	h := served(t, querytest.Entries())
	page := ask(h, "GET", "/").Body.String()
	if strings.Contains(page, "<script>") || strings.Contains(page, "onclick") || strings.Contains(page, token) {
		t.Errorf("the page has more than a link to its script: %s", page)
	}
	mounted := viewer.New(viewOf(t, format.ET, querytest.Entries()), &viewer.Options{Base: "/debug/trace/"})
	for path, want := range map[string]int{"/debug/trace/": 200, "/debug/trace/api/meta": 200, "/api/meta": 404, "/debug/trace": 404, "/": 404} {
		expect.Equal(t, ask(mounted, "GET", path).Code, want, "mounted: %s", path)
	}
}

// A rows is an answer of api/rows.
type rows struct {
	Total, First, Outside int
	From                  int64 `json:"from_nano"`
	To                    int64 `json:"to_nano"`
	Toggled               []int
	Above, Rows           []row

	// The columns of Above, followed by the columns of Rows.
	starts, tooks                []int64
	row                          []uint32
	below, errors, flags, depths []int
}

type row struct {
	Row                         uint32
	Below, Errors, Flags, Depth int
	Start                       int64  `json:"start_unix_nano"`
	Took                        *int64 `json:"took_nano"`
	Name                        string
}

func rowsOf(t testing.TB, h http.Handler, query string) *rows {
	t.Helper()
	w := ask(h, "GET", "/api/rows?"+query)
	expect.MustEqual(t, w.Code, 200, "%s: %s", query, w.Body)
	r := new(rows)
	must(t, json.Unmarshal(w.Body.Bytes(), r))
	for _, x := range slices.Concat(r.Above, r.Rows) {
		took := int64(-1)
		if x.Took != nil {
			took = *x.Took
		}
		r.starts, r.tooks, r.row, r.below = append(r.starts, x.Start), append(r.tooks, took), append(r.row, x.Row), append(r.below, x.Below)
		r.errors, r.flags, r.depths = append(r.errors, x.Errors), append(r.flags, x.Flags), append(r.depths, x.Depth)
	}
	return r
}

func (r *rows) text() string {
	var list []string
	for _, x := range r.Rows {
		list = append(list, strings.Repeat("·", x.Depth)+x.Name)
	}
	return strings.Join(list, ", ")
}

// TestRows checks what rows say of themselves. testdata/requests.txt says which rows are visible.
func TestRows(t *testing.T) {
	h := served(t, querytest.Entries())
	r := rowsOf(t, h, "depth=9&first=3&n=1&q=payment")
	if len(r.Above) != 2 || r.Total != 13 || r.row[0] != 2 || r.row[1] != 4 || r.flags[2]>>17&1 != 1 || r.flags[0]>>17&1 != 0 || r.errors[0] != 2 || r.below[0] != 4 {
		t.Errorf("the rows are %+v", r)
	}
	r = rowsOf(t, h, "fill=8")
	expect.Slice(t, r.Toggled, []int{2, 4}, "it opened")
	r = rowsOf(t, h, "depth=9&at=11&n=3")
	if !slices.Contains(r.row, 11) {
		t.Errorf("around row 11 are %v", r.row)
	}
	r = rowsOf(t, h, "")
	if r.From != 1 || r.To != 500000000 {
		t.Errorf("times are from %d to %d", r.From, r.To)
	}
}

func jsonOf[T any](t testing.TB, h http.Handler, path string) (v T) {
	t.Helper()
	w := ask(h, "GET", path)
	expect.MustEqual(t, w.Code, 200, "%s: %s", path, w.Body)
	must(t, json.Unmarshal(w.Body.Bytes(), &v))
	return v
}

// TestCases checks that the page finds the same hits as package query, one after the other.
func TestCases(t *testing.T) {
	h := served(t, querytest.Entries())
	for _, c := range querytest.Cases {
		type found struct {
			Count, Index int
			Row          uint32
		}
		at := uint32(0)
		var got []uint32
		for range c.IDs {
			f := jsonOf[found](t, h, "/api/find?dir=next&at="+strconv.Itoa(int(at))+"&q="+url.QueryEscape(c.Query))
			if f.Count != len(c.IDs) || f.Index != len(got)+1 {
				t.Errorf("%s: %+v", c.Query, f)
			}
			at = f.Row
			got = append(got, at)
		}
		slices.Sort(got)
		if !slices.Equal(got, c.IDs) && len(c.IDs) > 0 {
			t.Errorf("%s finds %v, want %v", c.Query, got, c.IDs)
		}
	}
	for _, c := range querytest.Cases {
		// A handler that has not run the query yet searches only the rows that it shows.
		fresh := served(t, querytest.Entries())
		r := rowsOf(t, fresh, "depth=9&q="+url.QueryEscape(c.Query))
		var got []uint32
		for i, f := range r.flags {
			if f>>17&1 == 1 {
				got = append(got, r.row[i])
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, c.IDs) && len(c.IDs) > 0 {
			t.Errorf("%s marks %v, want %v", c.Query, got, c.IDs)
		}
	}
	first := jsonOf[struct {
		Count int
		Known bool
	}](t, h, "/api/find?first=1&q="+url.QueryEscape("level >= error"))
	if first.Count != 3 || !first.Known {
		t.Errorf("the first hits: %+v", first)
	}
	w := ask(h, "GET", "/api/find?q="+url.QueryEscape("{ name ="))
	var e struct {
		Error string
		Pos   int
	}
	must(t, json.Unmarshal(w.Body.Bytes(), &e))
	if w.Code != 422 || e.Error == "" || e.Pos != 8 {
		t.Errorf("of a wrong query: %d %+v", w.Code, e)
	}
}

// TestHostile checks that texts that could attack the page are sent as JSON, and that values of a megabyte are
// cut.
func TestHostile(t *testing.T) {
	evil := "</script><img src=x onerror=alert(1)>\u202e\x00\x1b[2J" + strings.Repeat("x", 1<<20)
	all := []*format.TraceEntry{format.Root(), {
		Message: format.Some(evil), Metadata: format.Metadata{Name: evil, Target: evil, File: format.Some(evil)},
		Attributes: tracetest.Attributes(evil, evil, format.AttrTime, int64(-1<<63)),
	}}
	h := serve(t, viewOf(t, format.IET, all), viewer.Options{})
	for _, path := range []string{"/api/meta", "/api/top", "/api/entry?row=1", "/api/logs?row=0", "/api/find?q=img", "/api/complete?q=." + "&at=1"} {
		w := ask(h, "GET", path)
		if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") || strings.Contains(w.Body.String(), "<img") || w.Body.Len() > 10<<20 {
			t.Errorf("%s: %d, %d bytes, %s", path, w.Code, w.Body.Len(), w.Header().Get("Content-Type"))
		}
	}
	d := jsonOf[struct{ Attributes []struct{ Size int } }](t, h, "/api/entry?row=1")
	expect.Equal(t, d.Attributes[0].Size, len(evil), "the size")
	if r := rowsOf(t, h, ""); len(r.Rows[0].Name) > 400 {
		t.Errorf("a row has a name of %d bytes", len(r.Rows[0].Name))
	}
}

// TestOddValuesHaveLiterals: details have the syntax of each value that a query cannot read as it is displayed, and the
// query finds the row.
func TestOddValuesHaveLiterals(t *testing.T) {
	for _, x := range []any{1e-7, 1.5e300, []byte{0, 0xff, 0x80}, []byte("text"), uint64(7), true, math.Inf(1), math.NaN()} {
		h := served(t, []*format.TraceEntry{format.Root(), tracetest.Entry("a", "v", x, format.AttrTime, int64(1)), tracetest.Entry("b", "v", "other", format.AttrTime, int64(1))})
		a := jsonOf[struct {
			Attributes []struct {
				Value   string
				Literal *string
			}
		}](t, h, "/api/entry?row=1").Attributes[0]
		literal := a.Value
		if a.Literal != nil {
			literal = *a.Literal
		}
		if f, ok := x.(float64); ok && (math.IsInf(f, 0) || math.IsNaN(f)) {
			expect.Equal(t, literal, "", "%v has the literal", x)
			continue
		}
		expect.Equal(t, jsonOf[struct{ Count int }](t, h, "/api/find?q="+url.QueryEscape(".v = "+literal)).Count, 1, "times that %v is found by %s", x, literal)
	}
}

// TestTags checks that an answer is not sent to a client that already has it, until the trace grows.
func TestTags(t *testing.T) {
	h := served(t, querytest.Entries())
	tag := ask(h, "GET", "/api/rows?depth=1").Header().Get("ETag")
	if w := ask(h, "GET", "/api/rows?depth=1", "If-None-Match", tag); w.Code != 304 || w.Body.Len() > 0 {
		t.Errorf("with its tag: %d", w.Code)
	}
	expect.Equal(t, ask(h, "GET", "/api/rows?depth=2", "If-None-Match", tag).Code, 200, "with another tag")
	type meta struct {
		Fingerprint string
		Same        bool
	}
	metaOf := func(as format.StorageFormat, entries int) meta {
		return jsonOf[meta](t, serve(t, viewOf(t, as, querytest.Entries()[:entries]), viewer.Options{}), "/api/meta")
	}
	all := len(querytest.Entries())
	et, iet, some := metaOf(format.ET, all).Fingerprint, metaOf(format.IETPrefix, all).Fingerprint, metaOf(format.IET, 9).Fingerprint
	if et != iet || some == et {
		t.Errorf("the fingerprint of an ET is %s, of its stream %s, of its beginning %s", et, iet, some)
	}
	for known, want := range map[string]bool{"": true, some: true, et: true, "x": false, "0-1-1": false} {
		expect.Equal(t, jsonOf[meta](t, h, "/api/meta?f="+known).Same, want, "whether %s has grown out of %s", et, known)
	}
	if again := served(t, querytest.Entries()); ask(again, "GET", "/api/rows?depth=1", "If-None-Match", tag).Code != 200 {
		t.Error("the answer of another handler is taken for the same")
	}
}

// live serves a file that grows. The file has a first log record, and log adds more.
func live(t *testing.T) (h *viewer.Handler, s *httptest.Server, rec *recorder.Recorder, log func(text string)) {
	t.Helper()
	name := hosttest.Path(t, "live.et")
	rec = tracetest.CreateAt(t, name, nil)
	t.Cleanup(func() { must(t, rec.Close(context.Background())) })
	log = func(text string) {
		must(t, rec.Log(format.SpanRef{}, tracetest.Log(text)))
		must(t, rec.Flush(t.Context()))
	}
	log("first")
	f, err := format.Open(name, &format.OpenOptions{Lenient: true})
	must(t, err)
	t.Cleanup(func() { f.Close() })
	v := tracetest.View(t, f)
	h = viewer.New(v, &viewer.Options{Follow: true})
	s = httptest.NewServer(h)
	t.Cleanup(s.Close)
	return h, s, rec, log
}

// TestFollow checks that a page gets an event when entries are written, and can then request them.
func TestFollow(t *testing.T) {
	h, s, rec, log := live(t)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/api/events", nil)
	must(t, err)
	answer, err := http.DefaultClient.Do(r)
	must(t, err)
	defer answer.Body.Close()
	read := func() (rows int) {
		b := make([]byte, 4096)
		n, err := answer.Body.Read(b)
		must(t, err)
		var e struct{ Rows int }
		must(t, json.Unmarshal(bytes.TrimPrefix(bytes.TrimSpace(b[:n]), []byte("data: ")), &e))
		return e.Rows
	}
	was := read()
	ref := format.SpanRef{TraceID: [16]byte{1}, SpanID: [8]byte{1}}
	begin := &tracetest.Span{Span: recorder.Span{Ref: ref, Open: true}, Entry: *tracetest.Entry("work")}
	begin.Entry.Attributes = tracetest.Attributes(format.AttrSpanID, "0100000000000000", format.AttrTraceID, "01000000000000000000000000000000", format.AttrTime, uint64(1))
	must(t, tracetest.WriteSpan(rec, begin))
	must(t, rec.Flush(t.Context()))
	for more := false; !more; {
		more = read() > was
	}
	tag := ask(h, "GET", "/api/rows").Header().Get("ETag")
	must(t, tracetest.EndSpan(rec, ref, nil, tracetest.Entry(format.NameSpanEnd, format.AttrSpanID, "0100000000000000", format.AttrDuration, uint64(5))))
	must(t, rec.Flush(t.Context()))
	read() // the end of a span is an event although it adds no row
	expect.Equal(t, ask(h, "GET", "/api/rows", "If-None-Match", tag).Code, 200, "after the end of a span")
	was++
	log("second")
	for more := false; !more; {
		more = read() > was
	}
	if got := rowsOf(t, h, "").text(); !strings.HasSuffix(got, "second") {
		t.Errorf("the rows are %s", got)
	}
	expect.Equal(t, h.Pages(), 1, "pages open")
	cancel()
	select {
	case <-h.Idle():
	case <-time.After(10 * time.Second):
		t.Error("the last page has gone, and nobody says so")
	}
}

// TestPause checks that a paused page gets the trace as it was when the pause began, even after its connection
// broke.
func TestPause(t *testing.T) {
	h, s, _, log := live(t)
	type news struct {
		Rows int
		Pin  string
	}
	pause := func(pin string) (read func() news, stop func()) {
		answer, err := s.Client().Get(s.URL + "/api/events?pause=" + pin)
		must(t, err)
		lines := bufio.NewScanner(answer.Body)
		return func() (n news) {
			for lines.Scan() {
				if line, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
					must(t, json.Unmarshal([]byte(line), &n))
					return n
				}
			}
			t.Fatal(lines.Err())
			return n
		}, func() { answer.Body.Close() }
	}
	read, stop := pause("")
	first := read()
	log("second")
	for n := first; n.Rows == first.Rows; {
		n = read()
	}
	want := func(pin, rows string) {
		t.Helper()
		expect.Equal(t, rowsOf(t, h, "pin="+pin).text(), rows, "with the pin %q", pin)
	}
	want(first.Pin, "first")
	want("", "first, second")
	want("unknown", "first, second")
	stop()
	want(first.Pin, "first")
	read, stop = pause(first.Pin)
	defer stop()
	expect.Equal(t, read(), first, "the connection after it has")
}

// TestCutFile checks that the process survives if an open file is truncated.
func TestCutFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the system cuts no file that is mapped")
	}
	v := viewOf(t, format.ET, querytest.Entries())
	h := serve(t, v, viewer.Options{Follow: true})
	must(t, os.Truncate(v.Files()[0].Name(), 20))
	for _, path := range []string{"/api/meta", "/api/top", "/api/rows?depth=9", "/api/entry?row=4", "/api/logs?row=2", "/api/find?q=payment", "/api/find?q=.user%3D1"} {
		if w := ask(h, "GET", path); w.Code != 200 && w.Code != 500 && w.Code != 409 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// FuzzParameters checks that every request gets an answer or an error, whatever its parameters are.
func FuzzParameters(f *testing.F) {
	for _, q := range []string{"", "row=4", "depth=9&x=1.2&first=3&n=500", "at=11&n=0", "q=%7B%7D&dir=prev", "root=4&only=x&fill=40", "id=shop.et%232", "what=error", "q=.user%20=%20&at=8", "q=.usr%20=%2er%20=\r\r="} {
		f.Add(q)
	}
	h := serve(f, viewOf(f, format.ET, querytest.Entries()), viewer.Options{})
	f.Fuzz(func(t *testing.T, q string) {
		for _, path := range []string{"meta", "top", "rows", "entry", "logs", "find", "complete", "row"} {
			r := httptest.NewRequest(http.MethodGet, "/api/"+path, nil)
			r.URL.RawQuery = q
			r.Host = "127.0.0.1:7"
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			switch w.Code {
			case 200, 400, 404, 422:
			default:
				b, _ := io.ReadAll(w.Body)
				t.Errorf("%s?%s: %d %s", path, q, w.Code, b)
			}
		}
	})
}
