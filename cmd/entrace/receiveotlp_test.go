package main

import (
	"errors"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// otlpTrace is a request with one span of a service. The span has an event.
const otlpTrace = `{"resourceSpans": [{"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "SERVICE"}}]},
"scopeSpans": [{"scope": {"name": "shop"}, "spans": [{"traceId": "00000000000000000000000000000001", "spanId": "0000000000000001",
"name": "order", "startTimeUnixNano": "1790000000000000000", "endTimeUnixNano": "1790000000000001000",
"events": [{"timeUnixNano": "1790000000000000500", "name": "cache miss"}]}]}]}]}`

// startOTLP starts a receiver, and returns its address for OTLP over HTTP.
func startOTLP(t *testing.T, args ...string) (c *process, address string) {
	t.Helper()
	c = start(t, append([]string{"receive", "--otlp", "--listen", "", "--otlp-http", "127.0.0.1:0", "--otlp-grpc", ""}, args...)...)
	c.await(&c.errs, "listening for OTLP at http://")
	return c, "http://" + regexp.MustCompile(`http://(127\.0\.0\.1:\d+)\n`).FindStringSubmatch(c.errs.String())[1]
}

func postOTLP(t *testing.T, address, service string) {
	t.Helper()
	body := strings.NewReader(strings.ReplaceAll(otlpTrace, "SERVICE", service))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"/v1/traces", body)
	must(t, err)
	req.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(req)
	must(t, err)
	must(t, answer.Body.Close())
	if answer.StatusCode != http.StatusOK {
		t.Errorf("got %s", answer.Status)
	}
}

func TestReceiveOTLPUntilAQueryMatches(t *testing.T) {
	dir := t.TempDir()
	c, address := startOTLP(t, "--dir", dir, "--console", "--until", `service.name = "last"`)
	for _, service := range []string{"first", "second", "last"} {
		postOTLP(t, address, service)
	}
	c.exit(exitFine)
	expect.Equal(t, strings.Count(c.out.String(), "cache miss"), 3, "events that it prints\n%s", &c.out)
	for _, service := range []string{"first", "second", "last"} {
		files, err := filepath.Glob(filepath.Join(dir, service+"-*.et"))
		if err != nil || len(files) != 1 {
			t.Errorf("%s: got files %v, %v", service, files, err)
			continue
		}
		if got := fine(t, nil, "cat", files[0]); strings.Count(got, "order") != 1 {
			t.Errorf("%s: the file has %s", service, got)
		}
	}
}

func TestReceiveOTLPRefusesToListenForOthersWithoutAToken(t *testing.T) {
	for _, args := range [][]string{
		{"--otlp-http", "0.0.0.0:0", "--otlp-grpc", ""},
		{"--otlp-http", "", "--otlp-grpc", "[::]:0"},
	} {
		c := start(t, append([]string{"receive", "--otlp", "--listen", "", "--dir", t.TempDir()}, args...)...)
		c.exit(exitUsage)
		expect.Has(t, c.errs.String(), "set a token", "it prints")
	}
	t.Setenv("TOKEN", "0123456789abcdef")
	c := start(t, "receive", "--otlp", "--listen", "", "--dir", t.TempDir(), "--otlp-http", "0.0.0.0:0", "--otlp-grpc", "", "--token-env", "TOKEN")
	c.await(&c.errs, "listening for OTLP")
	c.stop()
	c.exit(exitFine)
}

// TestSameErrorIsToldOnceAMinute checks that an error is printed only once a minute. Errors that differ only in
// ports or in quoted names are the same error.
func TestSameErrorIsToldOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		c, told := &console{err: &out}, repeats{}
		for _, text := range []string{`host "a" at 1.2.3.4:5`, `host "b" at 1.2.3.4:6`, "other"} {
			tellNew(c, &told, text, errors.New(text))
		}
		time.Sleep(repeatAfter)
		tellNew(c, &told, "other", errors.New("again"))
		expect.Equal(t, out.String(), "entrace: host \"a\" at 1.2.3.4:5\nentrace: other\nentrace: again\n", "it prints")
	})
}
