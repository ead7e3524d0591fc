//go:build conformance && linux

package collector

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/view"
)

const (
	spansPerRequest = 512
	sendingFor      = 15 * time.Second
	sendersAtOnce   = 16
)

// BenchmarkReceiveBesideCollector sends prepared requests of 512 spans with 5 attributes to 'entrace receive
// --otlp', and to the Collector's receiver with its file exporter. The name of a case has the number of requests a
// second. The benchmark compares the CPU time per span. The goal is that entrace uses at most as much. All
// requests must be answered, and after kill -9 all spans must be in the file of entrace.
func BenchmarkReceiveBesideCollector(b *testing.B) {
	exe := command(b)
	tofile := filepath.Join(b.TempDir(), "tofile")
	if out, err := exec.Command("go", "build", "-o", tofile, "./tofile").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	for name, send := range map[string]func(b *testing.B, address string) func(context.Context, []byte) error{"http": sendHTTP, "grpc": sendGRPC} {
		for _, asked := range []int{10_000, 50_000, 100_000, 200_000} {
			b.Run(fmt.Sprint(asked, "/", name), func(b *testing.B) {
				requests := asked * int(sendingFor/time.Second) / spansPerRequest
				measure := func(dir, name string, args func(http, grpc string) []string) time.Duration {
					b.Helper()
					addresses := map[string]string{"http": free(b), "grpc": free(b)}
					a := args(addresses["http"], addresses["grpc"])
					cmd := exec.Command(a[0], a[1:]...)
					var said bytes.Buffer
					cmd.Stdout, cmd.Stderr = &said, &said
					must(b, cmd.Start())
					defer func() { _ = cmd.Process.Kill() }()
					for _, address := range addresses {
						waitFor(b, address)
					}
					took, waits := sendAll(b, send(b, addresses[b.Name()[len(b.Name())-4:]]), requests)
					peak := peakMemory(b, cmd.Process.Pid)
					must(b, cmd.Process.Kill())
					if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
						b.Fatal(err)
					}
					cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
					n := requests * spansPerRequest
					b.Logf("%s: %d spans a second, %d ns of CPU a span, %d MB at most, %d MB of files, p50 %v, p99 %v", name,
						n*int(time.Second)/int(took), int(cpu)/n, peak>>20, size(b, dir)>>20, waits[len(waits)/2], waits[len(waits)*99/100])
					return cpu
				}
				for b.Loop() {
					dir := b.TempDir()
					ours := measure(dir, "entrace", func(http, grpc string) []string {
						return []string{exe, "receive", "--otlp", "--listen", "", "--dir", dir, "--otlp-http", http, "--otlp-grpc", grpc}
					})
					if got, want := recovered(b, exe, dir), requests*spansPerRequest; got != want {
						b.Errorf("after kill -9 the file has %d spans of %d", got, want)
					}
					must(b, os.RemoveAll(dir))
					for _, format := range []string{"json", "proto"} {
						dir := b.TempDir()
						theirs := measure(dir, "the Collector, "+format, func(http, grpc string) []string {
							return []string{tofile, http, grpc, filepath.Join(dir, "out"), format}
						})
						must(b, os.RemoveAll(dir))
						b.ReportMetric(float64(ours)/float64(theirs), "times-"+format)
					}
					b.ReportMetric(float64(ours)/float64(requests*spansPerRequest), "cpu-ns/span")
				}
			})
		}
	}
}

var must = expect.Must

// free returns a local address on which no process listens.
func free(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

func waitFor(t testing.TB, address string) {
	t.Helper()
	for range 500 {
		if c, err := net.Dial("tcp", address); err == nil {
			must(t, c.Close())
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("nobody listens at " + address)
}

// peakMemory returns the peak memory of a process in bytes.
func peakMemory(t testing.TB, pid int) (n int64) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	_, err = fmt.Sscan(peak, &n)
	must(t, err)
	return n << 10 // the unit in the status is KiB
}

// size returns the total size of the files below a folder, in bytes.
func size(t testing.TB, dir string) (n int64) {
	t.Helper()
	must(t, filepath.Walk(dir, func(_ string, fi os.FileInfo, err error) error {
		if err == nil && fi.Mode().IsRegular() {
			n += fi.Size()
		}
		return err
	}))
	return n
}

// sendAll sends a number of requests, evenly distributed over the time sendingFor. It returns how long this took,
// and how long each request waited for its answer, in ascending order.
func sendAll(b *testing.B, send func(context.Context, []byte) error, requests int) (took time.Duration, waits []time.Duration) {
	b.Helper()
	prepared, traceIDs := prepare(b)
	waits = make([]time.Duration, requests)
	began := time.Now()
	g, ctx := errgroup.WithContext(b.Context())
	numbers := make(chan int)
	for range sendersAtOnce {
		own := bytes.Clone(prepared)
		g.Go(func() error {
			for i := range numbers {
				for j, at := range traceIDs {
					binary.BigEndian.PutUint64(own[at+8:], spread(uint64(i*spansPerRequest+j+1)))
				}
				sent := time.Now()
				if err := send(ctx, own); err != nil {
					return fmt.Errorf("request %d: %w", i, err)
				}
				waits[i] = time.Since(sent)
			}
			return nil
		})
	}
	g.Go(func() error {
		defer close(numbers)
		for i := range requests {
			time.Sleep(time.Until(began.Add(sendingFor * time.Duration(i) / time.Duration(requests))))
			select {
			case numbers <- i:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	must(b, g.Wait())
	took = time.Since(began)
	slices.Sort(waits)
	return took, waits
}

// spread returns a number for n that looks like a random id. It is different for each n.
func spread(n uint64) uint64 { return n * 0x9E3779B97F4A7C15 }

// prepare returns an encoded request, and the offsets of the trace ids of its spans.
func prepare(b *testing.B) (request []byte, traceIDs []int) {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "cart")
	rs.Resource().Attributes().PutStr("host.name", "host-17.example.com")
	ss := rs.ScopeSpans().AppendEmpty()
	ss.Scope().SetName("go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp")
	marker := pcommon.TraceID{0xfa, 0xce, 0xfa, 0xce, 0xfa, 0xce, 0xfa, 0xce, 1, 1, 1, 1, 1, 1, 1, 1}
	for i := range spansPerRequest {
		s := ss.Spans().AppendEmpty()
		s.SetTraceID(marker)
		s.SetSpanID(pcommon.SpanID{1, byte(i >> 8), byte(i)})
		s.SetName("GET /cart/{id}")
		s.SetKind(ptrace.SpanKindServer)
		s.SetStartTimestamp(start + pcommon.Timestamp(i)*1000)
		s.SetEndTimestamp(start + pcommon.Timestamp(i)*1000 + 500)
		a := s.Attributes()
		a.PutStr("http.request.method", "GET")
		a.PutStr("url.path", fmt.Sprint("/cart/", i))
		a.PutInt("http.response.status_code", 200)
		a.PutStr("client.address", "192.0.2.17")
		a.PutStr("user_agent.original", "Mozilla/5.0 (X11; Linux x86_64; rv:128.0)")
	}
	request, err := ptraceotlp.NewExportRequestFromTraces(td).MarshalProto()
	must(b, err)
	for at := 0; ; {
		i := bytes.Index(request[at:], marker[:])
		if i < 0 {
			break
		}
		traceIDs = append(traceIDs, at+i)
		at += i + len(marker)
	}
	expect.MustEqual(b, len(traceIDs), spansPerRequest, "trace ids of the request")
	return request, traceIDs
}

func sendHTTP(_ *testing.B, address string) func(context.Context, []byte) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: sendersAtOnce}}
	return func(ctx context.Context, body []byte) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/v1/traces", bytes.NewReader(body))
		if err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/x-protobuf")
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		said, err := io.ReadAll(answer.Body)
		if err == nil && answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %q", answer.Status, said)
		}
		if err == nil {
			err = allTaken(said)
		}
		return err
	}
}

// A wholeCodec is a gRPC codec for messages that are already marshaled.
type wholeCodec struct{}

func (wholeCodec) Marshal(v any) ([]byte, error)      { return v.([]byte), nil }
func (wholeCodec) Unmarshal(data []byte, v any) error { *v.(*[]byte) = bytes.Clone(data); return nil }
func (wholeCodec) Name() string                       { return "proto" }

func sendGRPC(b *testing.B, address string) func(context.Context, []byte) error {
	c, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodec(wholeCodec{})))
	must(b, err)
	b.Cleanup(func() { _ = c.Close() })
	return func(ctx context.Context, body []byte) error {
		var answer []byte
		err := c.Invoke(ctx, "/opentelemetry.proto.collector.trace.v1.TraceService/Export", body, &answer)
		if err == nil {
			err = allTaken(answer)
		}
		return err
	}
}

// allTaken returns an error if the answer of a receiver says that it rejected spans.
func allTaken(answer []byte) error {
	r := ptraceotlp.NewExportResponse()
	if err := r.UnmarshalProto(answer); err != nil {
		return err
	}
	if n := r.PartialSuccess().RejectedSpans(); n > 0 {
		return fmt.Errorf("%d spans were refused: %s", n, r.PartialSuccess().ErrorMessage())
	}
	return nil
}

// recovered recovers the files that a killed receiver left in a folder, and returns the number of distinct spans
// in them.
func recovered(b *testing.B, exe, dir string) int {
	b.Helper()
	if out, err := exec.Command(exe, "recover", dir).CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*.et"))
	must(b, err)
	seen := make(map[uint64]bool)
	for _, name := range names {
		f, err := format.Open(name, nil)
		must(b, err)
		v, err := view.New(b.Context(), []*format.File{f}, nil)
		must(b, err)
		for r := range v.Rows() {
			if v.Role(r) == view.RoleSpan {
				ref := v.Ref(r)
				seen[binary.BigEndian.Uint64(ref.TraceID[8:])] = true
			}
		}
		must(b, f.Close())
	}
	return len(seen)
}
