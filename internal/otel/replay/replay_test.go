package replay_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/otel/codec"
	"github.com/entrace-go/entrace/internal/otel/replay"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

var must = expect.Must

// viewOf returns a view of spans and log records of one service.
func viewOf(t testing.TB, spans []otel.Span, logs []otel.Log) *view.View {
	t.Helper()
	name := otel.Any{Kind: otel.String, Text: "shop"}
	of := &otel.Resource{Attributes: otel.Attributes{otel.NewAttribute("service.name", &name)}}
	var in []byte
	for s, records := range [...][]byte{codec.Spans: encodeSpans(spans), codec.Logs: encodeLogs(logs)} {
		if records != nil {
			group := codec.Group{Resource: of, Scopes: []*codec.ScopeGroup{{Records: records}}}
			message := codec.Protobuf.AppendMessage(nil, codec.Signal(s), []codec.Group{group})
			in = append(binary.BigEndian.AppendUint32(in, uint32(len(message))), message...)
		}
	}
	path := hosttest.Path(t, "in.iet")
	f, err := os.Create(path)
	must(t, err)
	w, err := format.NewWriter(f, format.V1, format.IET, nil)
	must(t, err)
	must(t, otlp.Decode(t.Context(), bytes.NewReader(in), w, nil))
	must(t, errors.Join(w.Close(), f.Close()))
	v, err := view.New(t.Context(), []*format.File{tracetest.Open(t, path)}, nil)
	must(t, err)
	return v
}

func encodeSpans(spans []otel.Span) (records []byte) {
	e := codec.Protobuf
	for i := range spans {
		s, from := &spans[i], len(records)
		records = e.AppendSpan(records, s)
		for j := range s.Links {
			records = e.AppendLink(records, &s.Links[j], j == 0)
		}
		records = e.EndList(records)
		for j := range s.Events {
			records = e.AppendEvent(records, &s.Events[j], j == 0)
		}
		records = e.EndSpan(e.EndList(records), from)
	}
	return records
}

func encodeLogs(logs []otel.Log) (records []byte) {
	for i := range logs {
		records = codec.Protobuf.AppendLog(records, &logs[i])
	}
	return records
}

// attributesOf returns an attribute with a text of the given size.
func attributesOf(bytes int) otel.Attributes {
	return otel.Attributes{{Name: "a", Value: format.StringValue(strings.Repeat("x", bytes))}}
}

// spansOf returns n spans of a trace. They begin a second apart and last half a second. Each has a link to the
// previous span, an event, and an attribute with a text of the given size.
func spansOf(n, bytes int) (spans []otel.Span) {
	for i := range n {
		start := begin + int64(i)*1e9
		spans = append(spans, otel.Span{
			Name: fmt.Sprint("span ", i), TraceID: traceID, SpanID: spanID(i + 1), Parent: spanID(i), Start: start, Duration: 5e8, Ended: true,
			Attributes: attributesOf(bytes), Events: []otel.Event{{Name: "event", Time: start + 1, HasTime: true}},
			Links: []otel.Link{{TraceID: traceID, SpanID: spanID(i)}},
		})
	}
	return spans
}

// logsOf returns a log record for each of the first n spans of spansOf.
func logsOf(n, bytes int) (logs []otel.Log) {
	for i := range n {
		at := begin + int64(i)*1e9
		logs = append(logs, otel.Log{
			TraceID: traceID, SpanID: spanID(i + 1), Time: at, HasTime: true, Observed: at + 5,
			Body: otel.Any{Kind: otel.String, Text: "hello"}, Attributes: attributesOf(bytes),
		})
	}
	return logs
}

const begin int64 = 1_700_000_000_000_000_000

var traceID = [16]byte{1, 2, 3}

// spanID returns the id of span i. The id of span 0 is zero, which means no span.
func spanID(i int) (id [8]byte) {
	binary.BigEndian.PutUint64(id[:], uint64(i))
	return id
}

// An endpoint accepts OTLP. The function answer decides the answer; without it, the status is 200.
type endpoint struct {
	answer func(n int, r *http.Request) (*http.Response, error) // n counts requests from 0 on; nil, nil: the request is accepted

	mu    sync.Mutex
	n     int
	sizes []int // sizes of the messages
	spans []otel.Span
	logs  []otel.Log
	at    []time.Duration // when requests arrived
	begun time.Time
}

// RoundTrip implements http.RoundTripper.
func (e *endpoint) RoundTrip(r *http.Request) (*http.Response, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.n == 0 {
		e.begun = time.Now()
	}
	e.n++
	e.at = append(e.at, time.Since(e.begun))
	if e.answer != nil {
		if a, err := e.answer(e.n-1, r); a != nil || err != nil {
			return a, err
		}
	}
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			return nil, err
		}
		body = z
	}
	b, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	e.sizes = append(e.sizes, len(b))
	in := records{r: codec.NewReader(b, codec.Protobuf), e: e}
	switch {
	case r.Header.Get("Content-Type") != "application/x-protobuf":
		return answer(http.StatusUnsupportedMediaType, nil), nil
	case r.URL.Path == "/v1/traces":
		in.r.Assume(codec.Spans)
	case r.URL.Path == "/v1/logs":
		in.r.Assume(codec.Logs)
	default:
		return answer(http.StatusNotFound, nil), nil
	}
	_, err = in.r.Walk(0, int64(len(b)), false, &in)
	return answer(http.StatusOK, nil), errors.Join(err, in.err)
}

// A records is a codec.Visitor that reads the records of a request.
type records struct {
	r   *codec.Reader
	e   *endpoint
	err error
}

func (r *records) Span(off int64, _ *[16]byte, _, _ *[8]byte) {
	r.e.spans = append(r.e.spans, otel.Span{})
	r.err = errors.Join(r.err, r.r.Span(off, &r.e.spans[len(r.e.spans)-1]))
}

func (r *records) Log(off int64, _ *[16]byte, _ *[8]byte) {
	r.e.logs = append(r.e.logs, otel.Log{})
	r.err = errors.Join(r.err, r.r.Log(off, &r.e.logs[len(r.e.logs)-1]))
}

func (*records) EndScope(codec.Head)    {}
func (*records) EndResource(codec.Head) {}

// answer returns a response with a body in protobuf. The parameter header has pairs of name and value.
func answer(code int, body []byte, header ...string) *http.Response {
	h := http.Header{"Content-Type": {"application/x-protobuf"}}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return &http.Response{
		StatusCode: code, Status: fmt.Sprint(code, " ", http.StatusText(code)), Header: h, Body: io.NopCloser(bytes.NewReader(body)),
	}
}

// target returns a target whose requests go to e.
func target(t testing.TB, e *endpoint) *replay.Target {
	t.Helper()
	to, err := replay.NewTarget("http://x", nil)
	must(t, err)
	to.SetTransport(e)
	return to
}

// TestReplaySendsAll checks that every span and log record arrives once, in several requests.
func TestReplaySendsAll(t *testing.T) {
	const spans, logs = 1100, 600
	var e endpoint
	v := viewOf(t, spansOf(spans, 10), logsOf(logs, 10))
	done := int64(0)
	r, err := replay.Run(t.Context(), v, &replay.Options{Target: target(t, &e), Progress: func(n, total int64) {
		expect.Equal(t, total, spans+logs, "the total")
		done = n
	}})
	must(t, err)
	if r.Spans != spans || r.Logs != logs || r.Refused() != 0 || r.Requests != 5 || e.n != 5 || done != spans+logs {
		t.Errorf("the result is %+v, and %d requests came", r, e.n)
	}
	seen := make(map[[8]byte]bool)
	for i, s := range e.spans {
		seen[s.SpanID] = true
		if s.TraceID != traceID || len(s.Events) != 1 || len(s.Links) != 1 || s.Duration != 5e8 {
			t.Fatalf("span %d is %s %+v", i, s.Name, s)
		}
	}
	if len(e.spans) != spans || len(seen) != spans || len(e.logs) != logs {
		t.Errorf("%d spans arrived, %d of them once, and %d log records", len(e.spans), len(seen), len(e.logs))
	}
	if r.First != begin || r.Last != begin+(spans-1)*1e9+5e8 {
		t.Errorf("it is from %d to %d", r.First, r.Last)
	}
}

// TestRequestsStayBelowTheirBound checks that large records are sent in more requests, and a record above the limit
// alone.
func TestRequestsStayBelowTheirBound(t *testing.T) {
	for _, test := range []struct{ records, bytes, requests int }{
		{9, 1 << 20, 5}, // two records in a message
		{3, 3 << 20, 3},
		{2, 5 << 20, 2},
		{4, 2<<20 - 1000, 4},
	} {
		var e endpoint
		v := viewOf(t, spansOf(test.records, test.bytes), logsOf(test.records, test.bytes))
		r, err := replay.Run(t.Context(), v, &replay.Options{Target: target(t, &e), Shift: 1})
		must(t, err)
		if r.Spans != int64(test.records) || r.Logs != int64(test.records) {
			t.Errorf("%+v: the result is %+v", test, r)
		}
		for _, size := range e.sizes {
			if size > 4<<20 && test.bytes < 4<<20 {
				t.Errorf("%+v: a request has %d bytes", test, size)
			}
		}
		if test.bytes > 4<<20 && e.n != 2*test.requests {
			t.Errorf("%+v: there are %d requests", test, e.n)
		}
	}
}

// TestShift shifts all times. A missing time must stay missing, and a time that OTLP cannot express must be
// limited.
func TestShift(t *testing.T) {
	spans := append(spansOf(3, 0), otel.Span{Name: "open", TraceID: traceID, SpanID: spanID(9), Start: begin})
	v := viewOf(t, spans, logsOf(2, 0))
	last, ok := replay.LastEnd(v)
	if want := begin + 2_500_000_000; !ok || last != want {
		t.Errorf("the last end is %d, want %d", last, want)
	}
	for _, by := range []time.Duration{time.Hour, -time.Hour, 1<<63 - 1, -1 << 63} {
		var e endpoint
		_, err := replay.Run(t.Context(), v, &replay.Options{Target: target(t, &e), Shift: by})
		must(t, err)
		moved := func(at int64) int64 {
			if by == -1<<63 {
				return 1
			}
			return at + int64(by)
		}
		for _, s := range e.spans {
			if s.Name == "open" {
				if s.Start != moved(begin) || s.Ended {
					t.Errorf("%v: the open span is from %d to %d", by, s.Start, s.End())
				}
				continue
			}
			var i int
			_, err := fmt.Sscanf(s.Name, "span %d", &i)
			must(t, err)
			start := begin + int64(i)*1e9
			if s.Start != moved(start) || s.End() != moved(start+5e8) || s.Events[0].Time != moved(start+1) {
				t.Errorf("%v: %s is from %d to %d", by, s.Name, s.Start, s.End())
			}
		}
		for i, l := range e.logs {
			if at := begin + int64(i)*1e9; l.Time != moved(at) || l.Observed != moved(at+5) {
				t.Errorf("%v: log record %d is of %d", by, i, l.Time)
			}
		}
	}
}

// TestNewIDsAgree replaces the ids of several files. Parents, links and log records must still refer to their
// spans, other keys must give other ids, and a zero id must stay zero.
func TestNewIDsAgree(t *testing.T) {
	all := make(map[string]bool)
	for _, key := range []string{"a", "b"} {
		var e endpoint
		for _, v := range []*view.View{viewOf(t, spansOf(3, 0), nil), viewOf(t, nil, logsOf(3, 0))} {
			_, err := replay.Run(t.Context(), v, &replay.Options{Target: target(t, &e), Key: []byte(key)})
			must(t, err)
		}
		for i, s := range e.spans {
			up := [8]byte{}
			if i > 0 {
				up = e.spans[i-1].SpanID
			}
			if s.TraceID == traceID || s.SpanID == spanID(i+1) || s.SpanID == [8]byte{} || s.Parent != up {
				t.Errorf("span %d is %x %x below %x", i, s.TraceID, s.SpanID, s.Parent)
			}
			if l := s.Links[0]; l.TraceID != s.TraceID || l.SpanID != up {
				t.Errorf("span %d links to %x %x", i, l.TraceID, l.SpanID)
			}
			if l := e.logs[i]; l.TraceID != s.TraceID || l.SpanID != s.SpanID {
				t.Errorf("log record %d is of %x %x", i, l.TraceID, l.SpanID)
			}
			all[string(s.SpanID[:])] = true
			all[string(s.TraceID[:])] = true
		}
	}
	expect.Equal(t, len(all), 2*(3+1), "ids")
}

// TestSpeed checks when requests are sent at the recorded speed, ten times as fast, and as fast as possible.
func TestSpeed(t *testing.T) {
	v := viewOf(t, spansOf(5, 0), logsOf(1, 0))
	for speed, want := range map[float64][]time.Duration{
		1:  {0, 500 * time.Millisecond, 1500 * time.Millisecond, 2500 * time.Millisecond, 3500 * time.Millisecond, 4500 * time.Millisecond},
		10: {0, 0, 150 * time.Millisecond, 350 * time.Millisecond},
		0:  {0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			var e endpoint
			_, err := replay.Run(t.Context(), v, &replay.Options{Target: target(t, &e), Speed: speed})
			must(t, err)
			if speed == 10 {
				// At speed 10, a request has the records of two seconds and is sent when its last record is due.
				want = slices.Clone(e.at)
				if e.at[len(e.at)-1] > 450*time.Millisecond || len(e.at) != 4 {
					t.Errorf("at speed 10 requests come at %v", e.at)
				}
			}
			expect.Slice(t, e.at, want, "at speed %v requests come at", speed)
			if len(e.spans) != 5 || len(e.logs) != 1 {
				t.Errorf("%d spans and %d log records arrived", len(e.spans), len(e.logs))
			}
		})
	}
}

// TestSpeedOfRecordsWithoutTimes checks that a record without a time does not count as a record of 1970, which would
// delay the other records.
func TestSpeedOfRecordsWithoutTimes(t *testing.T) {
	logs := logsOf(4, 0)
	for _, i := range []int{0, 1, 3} {
		logs[i].HasTime, logs[i].Time, logs[i].Observed = false, 0, 0
	}
	v := viewOf(t, nil, logs)
	synctest.Test(t, func(t *testing.T) {
		var e endpoint
		begun := time.Now()
		_, err := replay.Run(t.Context(), v, &replay.Options{Target: target(t, &e), Speed: 1})
		must(t, err)
		if took := time.Since(begun); took != 0 || len(e.logs) != 4 {
			t.Errorf("%d records arrived in %v", len(e.logs), took)
		}
	})
}

// TestDryRun checks that a dry run counts what would be sent and sends nothing.
func TestDryRun(t *testing.T) {
	var e endpoint
	v := viewOf(t, spansOf(600, 0), logsOf(1, 0))
	r, err := replay.Run(t.Context(), v, &replay.Options{Target: target(t, &e), DryRun: true, Speed: 1})
	must(t, err)
	if r.Spans != 600 || r.Logs != 1 || r.Requests < 3 || r.Bytes == 0 || e.n != 0 {
		t.Errorf("the result is %+v, and %d requests came", r, e.n)
	}
}

// status returns a google.rpc.Status.
func status(message string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, 2, protowire.BytesType), message)
}

// partial returns the body of an answer that refuses n records.
func partial(n uint64, message string) []byte {
	b := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), n)
	b = append(b, status(message)...)
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), b)
}

// inJSON returns an answer of success with a body in JSON.
func inJSON(body string) *http.Response {
	return answer(http.StatusOK, []byte(body), "Content-Type", "application/json")
}

// notOTLP returns the beginning of the message about an answer of a type that is not one of OTLP.
func notOTLP(kind string) string {
	return fmt.Sprintf("200 OK, but the answer is not one of OTLP (content type %q):", kind)
}

// TestAnswers checks that a replay reacts to the answers of an endpoint as OTLP requires.
func TestAnswers(t *testing.T) {
	broken := errors.New("connection refused")
	tests := []struct {
		name    string
		answers []any // *http.Response or error each; afterwards requests are accepted
		taken   int64
		refused int64
		says    string
		err     error
		waited  time.Duration // least time between the first and the last request
		tries   int
	}{
		{"taken", nil, 3, 0, "", nil, 0, 1},
		{"busy", []any{answer(503, nil), answer(502, nil), answer(504, nil)}, 3, 0, "", nil, time.Second, 4},
		{"asks for time", []any{answer(429, nil, "Retry-After", "17")}, 3, 0, "", nil, 17 * time.Second, 2},
		{"asks for a date", []any{answer(503, nil, "Retry-After", "Sat, 01 Jan 2000 00:00:30 GMT")}, 3, 0, "", nil, 29 * time.Second, 2},
		{"asks for too much", []any{answer(503, status("full"), "Retry-After", "3600")}, 0, 3, "503 Service Unavailable: full", nil, 0, 1},
		{"refuses", []any{answer(400, status("no such tenant"))}, 0, 3, "400 Bad Request: no such tenant", nil, 0, 1},
		{"refuses in text", []any{answer(401, []byte("who?"), "Content-Type", "text/plain")}, 0, 3, "401 Unauthorized: who?", nil, 0, 1},
		{"redirects", []any{answer(302, nil, "Location", "http://elsewhere")}, 0, 3, "302 Found:", nil, 0, 1},
		{"refuses some", []any{answer(200, partial(2, "too old"))}, 1, 2, "too old", nil, 0, 1},
		{"refuses more than there is", []any{answer(200, partial(1<<63, "?"))}, 3, 0, "?", nil, 0, 1},
		{"warns", []any{answer(200, partial(0, "slow down"))}, 3, 0, "slow down", nil, 0, 1},
		{"answers nonsense", []any{answer(200, []byte{0xff, 0xff})}, 0, 3, notOTLP("application/x-protobuf"), nil, 0, 1},
		{"answers without a type", []any{answer(200, nil, "Content-Type", "")}, 3, 0, "", nil, 0, 1},
		{"answers with a page", []any{answer(200, []byte("<title>Login</title>"), "Content-Type", "text/html; charset=utf-8")}, 0, 3, notOTLP("text/html") + " <title>Login</title>", nil, 0, 1},
		{"answers with an empty page", []any{answer(200, nil, "Content-Type", "text/html")}, 0, 3, notOTLP("text/html"), nil, 0, 1},
		{"answers with a page after a pause", []any{answer(503, nil), answer(200, []byte("<p>"), "Content-Type", "text/html")}, 0, 3, notOTLP("text/html"), nil, 0, 2},
		{"takes all, in JSON", []any{inJSON(`{"partialSuccess": {}}`)}, 3, 0, "", nil, 0, 1},
		{"refuses some, in JSON", []any{inJSON(`{"partialSuccess": {"rejectedSpans": "2", "errorMessage": "too old"}}`)}, 1, 2, "too old", nil, 0, 1},
		{"refuses some, with a number", []any{inJSON(`{"partialSuccess": {"rejectedSpans": 1}}`)}, 2, 1, "", nil, 0, 1},
		{"an error of a proxy, in JSON", []any{inJSON(`{"error": "sign in"}`)}, 0, 3, notOTLP("application/json"), nil, 0, 1},
		{"is not there", []any{broken}, 0, 0, "", replay.ErrUnreachable, 0, 1},
		{"goes and comes back", []any{answer(503, nil), broken, broken}, 3, 0, "", nil, time.Second, 4},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			v := viewOf(t, spansOf(3, 0), nil)
			synctest.Test(t, func(t *testing.T) {
				e := endpoint{answer: func(n int, _ *http.Request) (*http.Response, error) {
					if n >= len(test.answers) {
						return nil, nil
					}
					if err, ok := test.answers[n].(error); ok {
						return nil, err
					}
					return test.answers[n].(*http.Response), nil
				}}
				r, err := replay.Run(t.Context(), v, &replay.Options{Target: target(t, &e)})
				expect.Is(t, err, test.err, "the error")
				if r.Spans != test.taken || r.Refused() != test.refused || e.n != test.tries {
					t.Errorf("the result is %+v after %d tries", r, e.n)
				}
				if says := strings.Join(r.Messages, "\n"); !strings.HasPrefix(says, test.says) || test.says == "" && says != "" {
					t.Errorf("it says %q, want %q", says, test.says)
				}
				if waited := e.at[len(e.at)-1]; waited < test.waited {
					t.Errorf("it waited %v, want %v", waited, test.waited)
				}
			})
		})
	}
}

// TestEndpointThatStaysAway checks that the replay ends after a minute without an answer, and reports the sent
// records.
func TestEndpointThatStaysAway(t *testing.T) {
	v := viewOf(t, spansOf(1000, 0), nil)
	synctest.Test(t, func(t *testing.T) {
		e := endpoint{answer: func(n int, _ *http.Request) (*http.Response, error) {
			if n == 0 {
				return nil, nil
			}
			return nil, errors.New("no route to host")
		}}
		r, err := replay.Run(t.Context(), v, &replay.Options{Target: target(t, &e)})
		if !errors.Is(err, replay.ErrUnreachable) || !strings.Contains(err.Error(), "no route to host") || r.Spans != 512 {
			t.Errorf("the result is %+v, and the error %v", r, err)
		}
		if e.n < 4 || e.at[e.n-1] > time.Minute {
			t.Errorf("it tried at %v", e.at)
		}
	})
}
