package replay_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
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

// responses returns the answers of a line in testdata/answers.txt: responses and errors.
func responses(line string) (list []any) {
	for _, c := range tracetest.Commands(line, nil) {
		code, err := strconv.Atoi(c.Word(0))
		if err != nil {
			list = append(list, errors.New("connection refused"))
			continue
		}
		var body []byte
		var header []string
		for _, a := range c.Attributes {
			text := fmt.Sprint(a.Value)
			switch a.Key {
			case "status":
				body = status(text)
			case "refuses":
				n, _ := a.Value.(int64)
				body = partial(uint64(n), c.Word(1))
			case "body":
				body = []byte(text)
			default:
				header = append(header, a.Key, text)
			}
		}
		list = append(list, answer(code, body, header...))
	}
	return list
}

var update = flag.Bool("update", false, "write the results in testdata again")

// TestAnswers checks that a replay reacts to the answers of an endpoint as OTLP requires.
func TestAnswers(t *testing.T) {
	v := viewOf(t, spansOf(3, 0), nil)
	tracetest.Golden(t, "testdata/answers.txt", *update, func(line string) (said string) {
		synctest.Test(t, func(t *testing.T) {
			answers := responses(line)
			e := endpoint{answer: func(n int, _ *http.Request) (*http.Response, error) {
				if n >= len(answers) {
					return nil, nil
				}
				r, _ := answers[n].(*http.Response)
				err, _ := answers[n].(error)
				return r, err
			}}
			r, err := replay.Run(t.Context(), v, &replay.Options{Target: target(t, &e)})
			waited := e.at[len(e.at)-1]
			if !strings.Contains(line, "Retry-After") {
				waited = min(waited, time.Duration(e.n-1)*time.Second/2) // what is more is random
			}
			said = fmt.Sprintf("%d taken, %d refused, in %v by %d requests\n%s", r.Spans, r.Refused(), waited, e.n, strings.Join(r.Messages, "\n"))
			if err != nil {
				said += err.Error()
			}
			said = strings.ToValidUTF8(said, "?")
		})
		return said
	})
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
