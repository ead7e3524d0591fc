package receive_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/entrace-go/entrace/internal/otel/codec"
	"github.com/entrace-go/entrace/internal/otel/receive"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A sink is a Sink with a fixed answer.
type sink struct {
	done receive.Result
	err  error
}

func (s *sink) Take(context.Context, codec.Signal, codec.Encoding, []byte) (receive.Result, error) {
	return s.done, s.err
}

// serve runs a server until the test ends, and returns its address.
func serve(t testing.TB, s *receive.Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		expect.OK(t, <-served)
	})
	return l.Addr().String()
}

// client returns a client of HTTP/1, or of HTTP/2 without TLS.
func client(t testing.TB, two bool) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!two)
	protocols.SetUnencryptedHTTP2(two)
	tr := &http.Transport{Protocols: protocols, DisableCompression: true}
	tr.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			t.Cleanup(func() { _ = c.Close() }) // otherwise HTTP/2 waits for a second
		}
		return c, err
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// A reply is an answer of a server with its whole body.
type reply struct {
	*http.Response

	body []byte
}

// ask sends a request. The parameter headers has pairs of name and value.
func ask(t testing.TB, c *http.Client, method, url string, body io.Reader, headers ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	must(t, err)
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.Do(req)
	must(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must(t, err)
	return reply{resp, b}
}

const (
	protobuf = "application/x-protobuf"
	inJSON   = "application/json"
)

func TestSuccessIsAnsweredInTheEncodingOfTheRequest(t *testing.T) {
	partial := receive.Result{Taken: 1, Refused: 3, Why: errors.New("because \xff")}
	for _, tt := range []struct {
		name, path, kind string
		done             receive.Result
		want             string
	}{
		{"all spans", "/v1/traces", protobuf, receive.Result{Taken: 4}, ""},
		{"all logs", "/v1/logs", inJSON, receive.Result{Taken: 4}, "{}"},
		{"metrics", "/v1/metrics", protobuf, receive.Result{}, ""},
		{"some spans", "/v1/traces", protobuf, partial, string(message(1, message(1, 3, 2, "because \uFFFD")))},
		{"some spans, JSON", "/v1/traces", inJSON, partial, `{"partialSuccess":{"errorMessage":"because \ufffd","rejectedSpans":"3"}}`},
		{"some logs, JSON", "/v1/logs", inJSON, partial, `{"partialSuccess":{"errorMessage":"because \ufffd","rejectedLogRecords":"3"}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at := serve(t, receive.NewServer(&sink{done: tt.done}, receive.Options{}))
			got := ask(t, client(t, false), http.MethodPost, "http://"+at+tt.path, strings.NewReader("{}"), "Content-Type", tt.kind)
			if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != tt.kind {
				t.Fatalf("got %d %v", got.StatusCode, got.Header)
			}
			if tt.kind == inJSON {
				var g, w any
				must(t, errors.Join(json.Unmarshal(got.body, &g), json.Unmarshal([]byte(tt.want), &w)))
				gb, _ := json.Marshal(g)
				wb, _ := json.Marshal(w)
				expect.Slice(t, gb, wb, "gb")
			} else if string(got.body) != tt.want {
				t.Errorf("got %x, want %x", got.body, tt.want)
			}
		})
	}
}

func TestFailureIsAStatusInTheEncodingOfTheRequest(t *testing.T) {
	full := &sink{err: receive.ErrFull}
	damaged := &sink{done: receive.Result{Taken: 2}, err: &receive.DamageError{Err: errors.New("wrong")}}
	bomb := zipped(t, make([]byte, 3<<20))
	for _, tt := range []struct {
		name    string
		sink    *sink
		o       receive.Options
		method  string
		path    string
		body    string
		headers []string
		want    int
		code    uint64
		text    string
	}{
		{name: "damaged", sink: damaged, want: 400, code: 3, text: "wrong; 2 earlier records were accepted"},
		{name: "not gzip", body: "plain", headers: []string{"Content-Encoding", "gzip"}, want: 400, code: 3},
		{name: "cut gzip", body: string(zipped(t, []byte("some text"))[:15]), headers: []string{"Content-Encoding", "gzip"}, want: 400, code: 3},
		{name: "no token", o: receive.Options{Token: "0123456789abcdef"}, want: 401, code: 16},
		{name: "wrong token", o: receive.Options{Token: "0123456789abcdef"}, headers: []string{"Authorization", "Bearer 0123456789abcdeF"}, want: 401, code: 16},
		{name: "no bearer", o: receive.Options{Token: "0123456789abcdef"}, headers: []string{"Authorization", "Basic 0123456789abcdef"}, want: 401, code: 16},
		{name: "another host", o: receive.Options{Local: true}, headers: []string{"Host", "evil.example"}, want: 403, code: 7},
		{name: "a web page", o: receive.Options{Local: true}, headers: []string{"Origin", "http://localhost"}, want: 403, code: 7},
		{name: "another path", path: "/v1/trace", want: 404, code: 12},
		{name: "GET", method: http.MethodGet, want: 405, code: 12},
		{name: "large", o: receive.Options{MaxRequest: 1 << 20}, body: strings.Repeat("x", 1<<20+1), want: 413, code: 3},
		{name: "large when unzipped", o: receive.Options{MaxRequest: 1 << 20}, body: string(bomb), headers: []string{"Content-Encoding", "gzip"}, want: 413, code: 3},
		{name: "compressed too much", body: string(bomb), headers: []string{"Content-Encoding", "gzip"}, want: 413, code: 3, text: "the request is more than 256 times larger when decompressed"},
		{name: "too many records", sink: &sink{err: &receive.DamageError{Err: codec.ErrMany}}, want: 413, code: 3},
		{name: "another encoding", body: "x", headers: []string{"Content-Encoding", "zstd"}, want: 415, code: 12},
		{name: "full", sink: full, want: 503, code: 14},
		{name: "a failure", sink: &sink{err: errors.New("no disk")}, want: 500, code: 13, text: "no disk"},
	} {
		for _, kind := range []string{protobuf, inJSON} {
			t.Run(tt.name+" "+kind, func(t *testing.T) {
				s := tt.sink
				if s == nil {
					s = new(sink)
				}
				method, path := tt.method, tt.path
				if method == "" {
					method = http.MethodPost
				}
				if path == "" {
					path = "/v1/traces"
				}
				at := serve(t, receive.NewServer(s, tt.o))
				got := ask(t, client(t, false), method, "http://"+at+path, strings.NewReader(tt.body), append(tt.headers, "Content-Type", kind)...)
				if got.StatusCode != tt.want || got.Header.Get("Content-Type") != kind {
					t.Fatalf("got %d %v, want %d", got.StatusCode, got.Header, tt.want)
				}
				if retry := got.Header.Get("Retry-After") != ""; retry != (tt.want == 503) {
					t.Errorf("Retry-After: got %q", got.Header.Get("Retry-After"))
				}
				var status struct {
					Code    uint64
					Message string
				}
				if kind == inJSON {
					must(t, json.Unmarshal(got.body, &status))
				} else {
					fields := parse(t, got.body)
					status.Code, _ = fields[1].(uint64)
					status.Message, _ = fields[2].(string)
				}
				if status.Code != tt.code || status.Message == "" || tt.text != "" && status.Message != tt.text {
					t.Errorf("got %d %q, want %d %q", status.Code, status.Message, tt.code, tt.text)
				}
			})
		}
	}
}

func TestOtherContentIsNotTaken(t *testing.T) {
	at := serve(t, receive.NewServer(new(sink), receive.Options{}))
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/grpc"} {
		if got := ask(t, client(t, false), http.MethodPost, "http://"+at+"/v1/logs", strings.NewReader("{}"), "Content-Type", kind); got.StatusCode != http.StatusUnsupportedMediaType {
			t.Errorf("%q: got %d", kind, got.StatusCode)
		}
	}
	for _, kind := range []string{"application/json; charset=utf-8", "application/protobuf", protobuf} {
		expect.Equal(t, ask(t, client(t, false), http.MethodPost, "http://"+at+"/v1/logs", strings.NewReader("{}"), "Content-Type", kind).StatusCode, http.StatusOK, "%q", kind)
	}
}

// TestGRPCWebIsRefusedWithItsReason checks that a sender by gRPC-Web, and a browser that asks whether it may send, get
// the reason of the refusal, and the operator too.
func TestGRPCWebIsRefusedWithItsReason(t *testing.T) {
	var told []string
	at := serve(t, receive.NewServer(new(sink), receive.Options{Tell: func(text string) { told = append(told, text) }}))
	url := "http://" + at + "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
	for method, headers := range map[string][]string{
		http.MethodPost:    {"Content-Type", "application/grpc-web+proto"},
		http.MethodOptions: {"Origin", "http://shop.example", "Access-Control-Request-Headers", "content-type,X-Grpc-Web"},
	} {
		told = nil
		got := ask(t, client(t, false), method, url, nil, headers...)
		const reason = "gRPC-Web is not supported"
		said := got.Header.Get("Grpc-Message")
		if got.StatusCode != http.StatusUnsupportedMediaType || got.Header.Get("Grpc-Status") != "12" || !strings.HasPrefix(said, reason) || !strings.Contains(string(got.body), said) {
			t.Errorf("%s: the answer is %d %v %s", method, got.StatusCode, got.Header, got.body)
		}
		expect.Slice(t, told, []string{said}, "%s: told", method)
	}
}

func TestSlowBodyIsGivenUp(t *testing.T) {
	at := serve(t, receive.NewServer(new(sink), receive.Options{Timeout: 50 * time.Millisecond}))
	for _, two := range []bool{false, true} {
		r, w := io.Pipe()
		defer w.Close()
		got := ask(t, client(t, two), http.MethodPost, "http://"+at+"/v1/traces", r, "Content-Type", protobuf)
		expect.Equal(t, got.StatusCode, http.StatusRequestTimeout, "HTTP/2 %v", two)
	}
}

func TestTooManyRequestsAtOnceComeAgain(t *testing.T) {
	o := receive.Options{MaxRequest: 1 << 20, MaxMemory: 2 << 20, Timeout: time.Minute}
	s := receive.NewServer(new(sink), o)
	at := serve(t, s)
	c := client(t, false)
	r, w := io.Pipe()
	first := make(chan struct{})
	go func() {
		defer close(first)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+at+"/v1/traces", r)
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Content-Type", protobuf)
		if resp, err := c.Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	large := strings.Repeat("x", 1<<20)
	must(t, expect.Err(io.WriteString(w, large)))
	for s.Memory() <= 1<<20 { // wait until the server has read it, so that the next request finds no room
		runtime.Gosched()
	}
	got := ask(t, c, http.MethodPost, "http://"+at+"/v1/traces", strings.NewReader(large), "Content-Type", protobuf)
	if got.StatusCode != http.StatusTooManyRequests || got.Header.Get("Retry-After") == "" {
		t.Errorf("got %d %v", got.StatusCode, got.Header)
	}
	_ = w.Close()
	<-first
	got = ask(t, c, http.MethodPost, "http://"+at+"/v1/traces", strings.NewReader(large), "Content-Type", protobuf)
	expect.Equal(t, got.StatusCode, http.StatusOK, "afterwards")
	if s.Memory() != 0 {
		t.Errorf("%d bytes are still in use", s.Memory())
	}
}

// A slowSink reports on begun that a request has arrived, and answers it when end is closed.
type slowSink struct{ begun, end chan struct{} }

func (s slowSink) Take(context.Context, codec.Signal, codec.Encoding, []byte) (receive.Result, error) {
	close(s.begun)
	<-s.end
	return receive.Result{}, nil
}

func TestServeReturnsWhenRequestsAreAnswered(t *testing.T) {
	s := slowSink{make(chan struct{}), make(chan struct{})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	served, answered := make(chan error, 1), make(chan int, 1)
	go func() { served <- receive.NewServer(s, receive.Options{}).Serve(ctx, l) }()
	c := client(t, false)
	go func() {
		answered <- ask(t, c, http.MethodPost, "http://"+l.Addr().String()+"/v1/logs", strings.NewReader("x"), "Content-Type", protobuf).StatusCode
	}()
	<-s.begun
	cancel()
	for { // until the listener is closed
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			break
		}
		_ = c.Close()
	}
	select {
	case <-served:
		t.Error("Serve has returned before the request was answered")
	default:
	}
	close(s.end)
	if got := <-answered; got != http.StatusOK {
		t.Errorf("got %d", got)
	}
	must(t, <-served)
}

func TestMetricsAreCountedAndHealthIsTold(t *testing.T) {
	s := receive.NewServer(&sink{err: receive.ErrFull}, receive.Options{Token: "0123456789abcdef"})
	at := serve(t, s)
	c := client(t, false)
	for range 3 {
		if got := ask(t, c, http.MethodPost, "http://"+at+"/v1/metrics", strings.NewReader("{}"), "Content-Type", inJSON, "Authorization", "bearer 0123456789abcdef"); got.StatusCode != http.StatusOK {
			t.Errorf("got %d", got.StatusCode)
		}
	}
	if s.Metrics() != 3 {
		t.Errorf("got %d requests with metrics", s.Metrics())
	}
	if got := ask(t, c, http.MethodGet, "http://"+at+"/healthz", nil); got.StatusCode != http.StatusOK || string(got.body) != "ok\n" {
		t.Errorf("health: got %d %q", got.StatusCode, got.body)
	}
}

const traceExport = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"

func TestCallsByGRPC(t *testing.T) {
	good := request("shop", span(1, 0, "a"))
	for _, tt := range []struct {
		name    string
		sink    sink
		o       receive.Options
		path    string
		body    []byte
		headers []string
		want    string
		answer  []byte
		retry   bool
	}{
		{name: "success", body: framed(0, good), want: "0", answer: framed(0, nil)},
		{name: "logs", path: "/opentelemetry.proto.collector.logs.v1.LogsService/Export", body: framed(0, good), want: "0", answer: framed(0, nil)},
		{name: "metrics", path: "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export", body: framed(0, nil), want: "0", answer: framed(0, nil)},
		{name: "gzip", body: framed(1, zipped(t, good)), headers: []string{"Grpc-Encoding", "gzip"}, want: "0", answer: framed(0, nil)},
		{name: "partial", sink: sink{done: receive.Result{Refused: 2, Why: errors.New("no id")}}, body: framed(0, good), want: "0", answer: framed(0, message(1, message(1, 2, 2, "no id")))},
		{name: "damaged", sink: sink{err: &receive.DamageError{Err: errors.New("wrong")}}, body: framed(0, good), want: "3"},
		{name: "full", sink: sink{err: receive.ErrFull}, body: framed(0, good), want: "14", retry: true},
		{name: "unknown method", path: "/opentelemetry.proto.collector.trace.v1.TraceService/Import", body: framed(0, good), want: "12"},
		{name: "another service", path: "/v1/traces", body: framed(0, good), want: "12"},
		{name: "no token", o: receive.Options{Token: "0123456789abcdef"}, body: framed(0, good), want: "16"},
		{name: "nothing", want: "3"},
		{name: "cut head", body: []byte{0, 0, 0}, want: "3"},
		{name: "cut message", body: framed(0, good)[:20], want: "3"},
		{name: "cut gzip", body: framed(1, zipped(t, good)[:20]), headers: []string{"Grpc-Encoding", "gzip"}, want: "3"},
		{name: "length of 4 GiB", body: []byte{0, 255, 255, 255, 255, 1}, want: "3"},
		{name: "compressed, unknown", body: framed(1, good), headers: []string{"Grpc-Encoding", "snappy"}, want: "12"},
		{name: "compressed, not said", body: framed(1, good), want: "12"},
		{name: "another flag", body: framed(2, good), want: "12"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at := serve(t, receive.NewServer(&tt.sink, tt.o))
			path := tt.path
			if path == "" {
				path = traceExport
			}
			got := ask(t, client(t, true), http.MethodPost, "http://"+at+path, bytes.NewReader(tt.body), append(tt.headers, "Content-Type", "application/grpc", "Te", "trailers")...)
			if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "application/grpc" {
				t.Fatalf("got %d %v", got.StatusCode, got.Header)
			}
			where := got.Header // an answer with an error has no trailers
			if tt.want == "0" {
				where = got.Trailer
			}
			if s := where.Get("Grpc-Status"); s != tt.want {
				t.Errorf("status: got %q %q, want %s", s, where.Get("Grpc-Message"), tt.want)
			}
			expect.Slice(t, got.body, tt.answer, "answer")
			if (where.Get("Grpc-Message") != "") != (tt.want != "0") {
				t.Errorf("message: got %q", where.Get("Grpc-Message"))
			}
			details, err := base64.RawStdEncoding.DecodeString(where.Get("Grpc-Status-Details-Bin"))
			if err != nil || (len(details) > 0) != tt.retry {
				t.Fatalf("details: got %x, %v", details, err)
			}
			if tt.retry {
				checkRetryInfo(t, details)
			}
		})
	}
}

func checkRetryInfo(t *testing.T, details []byte) {
	t.Helper()
	status := parse(t, details)
	part := func(fields map[protowire.Number]any, n protowire.Number) map[protowire.Number]any {
		s, _ := fields[n].(string)
		return parse(t, []byte(s))
	}
	detail := part(status, 3)
	if status[1] != uint64(14) || detail[1] != "type.googleapis.com/google.rpc.RetryInfo" {
		t.Errorf("got %v", status)
	}
	if seconds := part(part(detail, 2), 1)[1]; seconds != uint64(2) {
		t.Errorf("RetryInfo: got %v seconds", seconds)
	}
}

// TestTokenGetsInBesideIdleConnections opens many connections without the token, some in the middle of a request. A
// client with the token must still be able to connect.
func TestTokenGetsInBesideIdleConnections(t *testing.T) {
	const token = "0123456789abcdef"
	at := serve(t, receive.NewServer(&sink{}, receive.Options{Token: token, MaxConnections: 8}))
	for i := range 40 {
		c, err := net.Dial("tcp", at)
		must(t, err)
		defer c.Close()
		_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n"+strings.Repeat("\r\n", i%2)) // every second request is complete
	}
	held := client(t, false)
	for range 3 {
		if r := ask(t, held, http.MethodPost, "http://"+at+"/v1/traces", strings.NewReader(""), "Content-Type", "application/x-protobuf", "Authorization", "Bearer "+token); r.StatusCode != http.StatusOK {
			t.Errorf("the answer is %s", r.Status)
		}
	}
}

// TestHosts checks that HTTP requests are accepted only for allowed host names, and that a refusal is reported
// once.
func TestHosts(t *testing.T) {
	var told []string
	at := serve(t, receive.NewServer(&sink{}, receive.Options{Local: true, Hosts: []string{"host.docker.internal"}, Tell: func(text string) { told = append(told, text) }}))
	for host, want := range map[string]int{"localhost:1": 200, "HOST.docker.internal:4318": 200, "host.docker.internal": 200, "otel-collector": 403} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+at+"/v1/traces", strings.NewReader("{}"))
		must(t, err)
		r.Host = host
		r.Header.Set("Content-Type", "application/json")
		got, err := client(t, false).Do(r)
		must(t, err)
		if b, _ := io.ReadAll(got.Body); got.StatusCode != want || want == 403 && !strings.Contains(string(b), "otel-collector") {
			t.Errorf("%s: %s: %s", host, got.Status, b)
		}
		_ = got.Body.Close()
	}
	if len(told) != 1 || !strings.Contains(told[0], "--allow-host") {
		t.Errorf("told %q", told)
	}
}
