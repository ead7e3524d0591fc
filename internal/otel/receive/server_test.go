package receive_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
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
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
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

var update = flag.Bool("update", false, "write the expected answers in testdata again")

// requestTo starts the server of a line in testdata, and returns its address and the request.
func requestTo(t *testing.T, line string, bodies map[string]any) (at string, c tracetest.Command, body string, headers []string) {
	t.Helper()
	sinks := map[string]*sink{
		"damaged": {done: receive.Result{Taken: 2}, err: &receive.DamageError{Err: errors.New("wrong")}}, "many": {err: &receive.DamageError{Err: codec.ErrMany}},
		"full": {err: receive.ErrFull}, "broken": {err: errors.New("no disk")}, "partial": {done: receive.Result{Refused: 2, Why: errors.New("no id")}},
	}
	s, o := new(sink), receive.Options{}
	c = tracetest.Commands(line, bodies)[0]
	for _, a := range c.Attributes {
		text := fmt.Sprint(a.Value)
		switch a.Key {
		case "sink":
			s = sinks[text]
		case "body":
			body = text
		case "token":
			o.Token = text
		case "most":
			o.MaxRequest = 1 << 20
		case "local":
			o.Local = true
		default:
			headers = append(headers, a.Key, text)
		}
	}
	return serve(t, receive.NewServer(s, o)), c, body, headers
}

// TestFailureIsAStatusInTheEncodingOfTheRequest compares the answers to the requests in testdata/failures.txt.
func TestFailureIsAStatusInTheEncodingOfTheRequest(t *testing.T) {
	bodies := map[string]any{
		"bomb": string(zipped(t, make([]byte, 3<<20))), "cut": string(zipped(t, []byte("some text"))[:15]), "large": strings.Repeat("x", 1<<20+1),
	}
	tracetest.Golden(t, "testdata/failures.txt", *update, func(line string) (said string) {
		at, c, body, headers := requestTo(t, line, bodies)
		for _, kind := range []string{protobuf, inJSON} {
			got := ask(t, client(t, false), c.Word(0), "http://"+at+c.Word(1), strings.NewReader(body), append(headers, "Content-Type", kind)...)
			expect.Equal(t, got.Header.Get("Content-Type"), kind, "%s: the answer", line)
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
			answer := fmt.Sprintf("%d, status %d: %s", got.StatusCode, status.Code, status.Message)
			if again := got.Header.Get("Retry-After"); again != "" {
				answer += "; again after " + again
			}
			if said != "" {
				expect.Equal(t, answer, said, "%s: in JSON", line)
			}
			said = answer
		}
		return said
	})
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
	expect.Equal(t, s.Memory(), 0, "bytes still in use")
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
	expect.Equal(t, <-answered, http.StatusOK, "the answer")
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
	expect.Equal(t, s.Metrics(), 3, "requests with metrics")
	if got := ask(t, c, http.MethodGet, "http://"+at+"/healthz", nil); got.StatusCode != http.StatusOK || string(got.body) != "ok\n" {
		t.Errorf("health: got %d %q", got.StatusCode, got.body)
	}
}

const traceExport = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"

// TestCallsByGRPC compares the answers to the calls in testdata/calls.txt.
func TestCallsByGRPC(t *testing.T) {
	good := request("shop", span(1, 0, "a"))
	gzipped := zipped(t, good)
	bodies := make(map[string]any)
	for name, b := range map[string][]byte{
		"good": framed(0, good), "gzip": framed(1, gzipped), "nothing": framed(0, nil), "cutHead": {0, 0, 0}, "cut": framed(0, good)[:20],
		"cutGzip": framed(1, gzipped[:20]), "long": {0, 255, 255, 255, 255, 1}, "compressed": framed(1, good), "another": framed(2, good),
	} {
		bodies[name] = string(b)
	}
	tracetest.Golden(t, "testdata/calls.txt", *update, func(line string) string {
		at, c, body, headers := requestTo(t, line, bodies)
		path := c.Word(0)
		if path[0] != '/' {
			path = "/opentelemetry.proto.collector." + path
		}
		got := ask(t, client(t, true), http.MethodPost, "http://"+at+path, strings.NewReader(body), append(headers, "Content-Type", "application/grpc", "Te", "trailers")...)
		if got.StatusCode != http.StatusOK || got.Header.Get("Content-Type") != "application/grpc" {
			t.Errorf("%s: got %d %v", line, got.StatusCode, got.Header)
		}
		where, in := got.Header, "header" // an answer with an error has no trailers
		if len(got.Trailer) > 0 {
			where, in = got.Trailer, "trailer"
		}
		said := fmt.Sprintf("status %s in the %s, %q: %s", where.Get("Grpc-Status"), in, got.body, where.Get("Grpc-Message"))
		details, err := base64.RawStdEncoding.DecodeString(where.Get("Grpc-Status-Details-Bin"))
		must(t, err)
		if len(details) > 0 {
			checkRetryInfo(t, details)
			said += "; again later"
		}
		return said
	})
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
	expect.Equal(t, part(part(detail, 2), 1)[1], any(uint64(2)), "seconds of RetryInfo")
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
