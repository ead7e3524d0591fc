package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

const (
	connections = 4
	// sliceRequests is the number of requests that a server gets before it is the turn of the next server. Short
	// turns make other load on the machine affect all servers alike.
	sliceRequests = 250
	// warmRequests is the number of requests before the measurement.
	warmRequests = 1000
)

// BenchmarkService sends requests to three HTTP services. The first one records nothing. The second one records
// spans and log records with entrace. The third one writes log records with slog.JSONHandler, and sends spans by
// OTLP over gRPC to a collector in a separate process. An operation is one request to each service. The benchmark
// reports the CPU time (user and system) of each server's process per request. This includes work that the server
// does later, such as flushing.
func BenchmarkService(b *testing.B) {
	if _, ok := cpuTime(); !ok {
		b.Skip("this system does not say how much of the CPU a process used")
	}
	b.Run(fmt.Sprintf("spans=%d/records=%d", spansPerRequest, recordsPerRequest), func(b *testing.B) {
		b.StopTimer()
		dir := dirVariable + "=" + b.TempDir()
		sink := startProcess(b, roleCollector)
		roles := []string{roleNothing, roleEntrace, roleOTLP}
		servers := make([]*process, len(roles))
		clients := make([]*client, len(roles))
		for i, role := range roles {
			servers[i] = startProcess(b, role, dir, collectorVariable+"="+sink.addr)
			clients[i] = newClient(b, servers[i].addr)
		}
		requests := 0
		load := func(n int) {
			requests += n
			for done := 0; done < n; done += sliceRequests {
				for _, c := range clients {
					must(b, c.requests(min(sliceRequests, n-done)))
				}
			}
		}
		load(min(b.N, warmRequests))
		before := make([]time.Duration, len(roles))
		for i, c := range clients {
			before[i] = c.cpu(b)
		}
		b.StartTimer()
		load(b.N)
		b.StopTimer()
		for i, c := range clients {
			b.ReportMetric(float64((c.cpu(b)-before[i]).Nanoseconds())/float64(b.N), roles[i]+"-cpu-ns/req")
		}
		recorded := 0
		for i, p := range servers {
			spans, err := p.end()
			must(b, err)
			if roles[i] == roleEntrace {
				recorded = spans
			}
		}
		collected, err := sink.end()
		must(b, err)
		if want := requests * spansPerRequest; recorded < want || collected != want {
			b.Fatalf("entrace recorded %d spans and the collector got %d, want %d", recorded, collected, want)
		}
	})
}

// A client sends requests to a server over several connections.
type client struct {
	http http.Client
	url  string
}

func newClient(b *testing.B, addr string) *client {
	t := &http.Transport{MaxIdleConnsPerHost: connections}
	b.Cleanup(t.CloseIdleConnections)
	return &client{http.Client{Transport: t}, "http://" + addr}
}

// requests makes n requests.
func (c *client) requests(n int) error {
	var failed atomic.Pointer[error]
	spread(n, connections, func(n int) {
		for range n {
			if _, err := c.get("/carts/0815"); err != nil {
				failed.Store(&err)
				return
			}
		}
	})
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// cpu returns the CPU time that the server has used.
func (c *client) cpu(b *testing.B) time.Duration {
	b.Helper()
	body, err := c.get("/cpu")
	must(b, err)
	n, err := strconv.ParseInt(body, 10, 64)
	must(b, err)
	return time.Duration(n)
}

func (c *client) get(path string) (string, error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, c.url+path, http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, resp.Status, body)
	}
	return string(body), err
}
