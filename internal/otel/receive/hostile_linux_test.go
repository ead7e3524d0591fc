//go:build !race

package receive_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
)

const (
	// limitedEnv makes the child process limit its memory and its descriptors.
	limitedEnv = "ENTRACE_TEST_RECEIVE_LIMITED"
	// limitedMemory is the memory that the child process may use. limitedSpace is how much its address space may
	// grow: it is larger, because the garbage collector returns freed memory with a delay.
	limitedMemory = 1 << 30
	limitedSpace  = 2 << 30
	limitedFiles  = 256
)

// limit sets the limits of a child process if limitedEnv is set.
func limit(t *testing.T) {
	t.Helper()
	if os.Getenv(limitedEnv) == "" {
		return
	}
	memory := statusOf(t, os.Getpid(), "VmSize") + limitedSpace
	for what, most := range map[int]uint64{unix.RLIMIT_AS: memory, unix.RLIMIT_NOFILE: limitedFiles} {
		must(t, unix.Setrlimit(what, &unix.Rlimit{Cur: most, Max: most}))
	}
}

// statusOf returns the value in bytes of a line in /proc/PID/status.
func statusOf(t *testing.T, pid int, key string) uint64 {
	t.Helper()
	b := tracetest.ReadFile(t, fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, key+":"); ok {
			n, err := strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
			must(t, err)
			return n << 10
		}
	}
	t.Fatalf("%s is not known", key)
	return 0
}

// A hostileRequest is a request over HTTP, with the expected status of the answer.
type hostileRequest struct {
	name    string
	path    string
	body    []byte
	headers []string
	want    int
}

func hostileRequests(t *testing.T) []hostileRequest {
	const size = 16 << 20
	late := uint64(1) << 63 // a time after 2262, which does not fit into an int64
	gzipped := []string{"Content-Encoding", "gzip", "Content-Type", protobuf}
	deep := []byte(nil)
	for range 1 << 12 {
		deep = message(5, message(1, deep))
	}
	asJSON := []string{"Content-Type", inJSON}
	return []hostileRequest{
		{"a gzip bomb", "/v1/traces", zipped(t, make([]byte, 8*size)), gzipped, http.StatusRequestEntityTooLarge},
		{"cut gzip", "/v1/traces", zipped(t, request("s", span(1, 0, "lost")))[:20], gzipped, http.StatusBadRequest},
		{"too large", "/v1/traces", make([]byte, size+1), nil, http.StatusRequestEntityTooLarge},
		{"empty records", "/v1/logs", message(1, message(2, bytes.Repeat([]byte{18, 0}, size/2-8))), nil, http.StatusRequestEntityTooLarge},
		{"empty resources", "/v1/logs", bytes.Repeat([]byte{10, 0}, size/2), nil, http.StatusRequestEntityTooLarge},
		{"as many records as may be", "/v1/logs", request("many", slices.Repeat([][]byte{logRecord(strings.Repeat("x", 50))}, 200_000)...), nil, http.StatusOK},
		{"a large resource", "/v1/logs", message(1, message(1, message(1, message(1, "k", 2, message(1, strings.Repeat("x", size-100)))), 2, message(2, logRecord("a")))), nil, http.StatusOK},
		{"deep values", "/v1/logs", request("deep", logRecord("a", 5, deep)), nil, http.StatusOK},
		{"open brackets", "/v1/logs", []byte(`{"resourceLogs":` + strings.Repeat("[", size-100)), asJSON, http.StatusBadRequest},
		{"empty objects", "/v1/logs", []byte(`{"resourceLogs":[` + strings.Repeat("{},", size/3-100) + `{}]}`), asJSON, http.StatusRequestEntityTooLarge},
		{"damage", "/v1/traces", bytes.Repeat([]byte{255}, size/2), nil, http.StatusBadRequest},
		{"text", "/v1/traces", make([]byte, size), []string{"Content-Type", "text/plain"}, http.StatusUnsupportedMediaType},
		{"no UTF-8", "/v1/traces", request("s\xff", span(1, 0, "\xff", 9, text("k\xff", "\xfe"))), nil, http.StatusOK},
		{"no ids", "/v1/traces", request("s", message(5, "a"), message(1, id(16, 0), 2, id(8, 1)), message(1, id(16, 1), 2, id(8, 0))), nil, http.StatusOK},
		{"no times", "/v1/traces", request("s", message(1, id(16, 1), 2, id(8, 1), 5, "a")), nil, http.StatusOK},
		{"times after 2262", "/v1/traces", request("s", span(1, 0, "a", 7, late, 8, ^uint64(0))), nil, http.StatusOK},
	}
}

// TestHostileSendersDoNotEndTheReceiver sends hostile requests to a process with little memory and few descriptors.
// Each must get its expected answer, good requests must still be accepted, and acknowledged spans must be in the
// files.
func TestHostileSendersDoNotEndTheReceiver(t *testing.T) {
	if testing.Short() {
		t.Skip("requests of 16 MiB")
	}
	t.Setenv(limitedEnv, "1")
	// A user with so little memory also sets GOMEMLIMIT. Memory of mapped journals does not count for it.
	t.Setenv("GOMEMLIMIT", strconv.Itoa(limitedMemory/2))
	dir := t.TempDir()
	address, pid, kill := startReceiver(t, dir)
	var acknowledged []string
	good := func() int {
		name := fmt.Sprint("good ", len(acknowledged))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/v1/traces", bytes.NewReader(request("good", span(1+len(acknowledged), 0, name))))
		must(t, err)
		req.Header.Set("Content-Type", protobuf)
		resp, err := client(t, false).Do(req)
		if err != nil {
			return 0
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			acknowledged = append(acknowledged, name)
		}
		return resp.StatusCode
	}
	await := func(what string) {
		t.Helper()
		for end := time.Now().Add(2 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
			status := good()
			if status == http.StatusOK {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: a good request gets %d", what, status)
			}
		}
	}
	await("at first")
	var senders sync.WaitGroup
	for _, r := range hostileRequests(t) {
		for range 2 {
			c := client(t, false)
			senders.Go(func() {
				for {
					got := r.send(t, c, address)
					if got == r.want {
						return
					}
					if got != http.StatusTooManyRequests && got != http.StatusServiceUnavailable {
						t.Errorf("%s: got %d, want %d", r.name, got, r.want)
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
	}
	senders.Wait()
	await("after hostile requests")
	connect(t, address, hosttest.Times(2*limitedFiles, 10_000))
	await("after many connections")
	if peak := statusOf(t, pid, "VmHWM"); peak > limitedMemory {
		t.Errorf("%d MiB were in memory", peak>>20)
	} else {
		t.Logf("%d MiB were in memory", peak>>20)
	}
	kill()
	err := recorder.RecoverFolder(t.Context(), dir, func(_ *recorder.Report, err error) {
		expect.OK(t, err)
	})
	must(t, err)
	found := make(map[string]int)
	for _, entries := range readAll(t, dir) {
		for _, name := range names(entries) {
			found[name]++
		}
	}
	for _, name := range acknowledged {
		expect.Equal(t, found[name], 1, "times that %s is in the files", name)
	}
	if found["lost"] > 0 {
		t.Error("what was cut is in the files")
	}
}

// send returns the status of the answer. If the server answers before it has read the body, the connection may
// break. In that case send returns the expected status.
func (r *hostileRequest) send(t *testing.T, c *http.Client, address string) int {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+r.path, bytes.NewReader(r.body))
	if err != nil {
		t.Error(err)
		return 0
	}
	req.Header.Set("Content-Type", protobuf)
	for i := 0; i < len(r.headers); i += 2 {
		req.Header.Set(r.headers[i], r.headers[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		if r.want < http.StatusRequestEntityTooLarge {
			t.Errorf("%s: %v", r.name, err)
		}
		return r.want
	}
	_, _ = io.Copy(io.Discard, resp.Body) // an error is possible for the same reason
	_ = resp.Body.Close()
	return resp.StatusCode
}

// connect opens n connections that send nothing or a part of a request, and then closes all of them.
func connect(t *testing.T, address string, n int) {
	t.Helper()
	parts := [...]string{
		"", "POST", "POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: " + protobuf + "\r\nContent-Length: 16000000\r\n\r\nx",
		"POST /v1/traces HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: " + protobuf + "\r\nTransfer-Encoding: chunked\r\n\r\nffffff\r\nx",
		"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
	}
	const dialers = 50
	dialer := net.Dialer{Timeout: 100 * time.Millisecond} // the server may not accept it
	var dialing sync.WaitGroup
	var mu sync.Mutex
	var all []net.Conn
	for d := range dialers {
		dialing.Go(func() {
			for i := d; i < n; i += dialers {
				c, err := dialer.DialContext(context.WithoutCancel(t.Context()), "tcp", address)
				if err != nil {
					continue
				}
				_, _ = io.WriteString(c, parts[i%len(parts)]) // the server may have closed it
				mu.Lock()
				all = append(all, c)
				mu.Unlock()
			}
		})
	}
	dialing.Wait()
	t.Logf("%d of %d connections", len(all), n)
	for _, c := range all {
		_ = c.Close()
	}
}
