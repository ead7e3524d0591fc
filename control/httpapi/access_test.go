package httpapi

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// TestHandlerUnix sends requests over a Unix socket. For these, net/http has no remote address.
func TestHandlerUnix(t *testing.T) {
	dir, err := os.MkdirTemp("", "h") //nolint:usetesting // names of sockets are short, and those of t.TempDir are not
	must(t, err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Skip("no unix sockets here: ", err)
	}
	s := &http.Server{Handler: New(newRig(t).Control, nil), ReadHeaderTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}
	for host, want := range map[string]int{"localhost": 200, "evil.com": 403} {
		resp, err := (&http.Client{Transport: tr}).Get("http://" + host + "/")
		must(t, err)
		_ = resp.Body.Close()
		expect.Equal(t, resp.StatusCode, want, "for %s", host)
	}
	tr.CloseIdleConnections()
	must(t, s.Close())
	<-done
}
