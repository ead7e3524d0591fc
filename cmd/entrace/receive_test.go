package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/remote"
)

// A console is written to by a command that runs.
type console struct {
	mu sync.Mutex

	b bytes.Buffer
}

func (c *console) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.b.Write(b)
}

func (c *console) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.b.String()
}

// await waits for text and returns what is there by then.
func (c *console) await(t *testing.T, text string) string {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if s := c.String(); strings.Contains(s, text) {
			return s
		}
		if time.Now().After(end) {
			t.Fatalf("%q does not come, but %q", text, c.String())
		}
	}
}

// TestReceiveTokenUnset: who asks for a token is not left without one.
func TestReceiveTokenUnset(t *testing.T) {
	t.Setenv("NOSUCH_TOKEN", "")
	var out, errs console
	code := run(t.Context(), []string{"receive", "--listen", "127.0.0.1:0", "--dir", t.TempDir(), "--token-env", "NOSUCH_TOKEN"}, nil, &out, &errs)
	if code != 2 || !strings.Contains(errs.String(), "NOSUCH_TOKEN is not set") {
		t.Errorf("it ends with %d and says %s", code, errs.String())
	}
}

func TestReceive(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_ENTRACE_TOKEN", "")
	t.Setenv("TOKEN", "0123456789abcdef")
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, errs console
	code := make(chan int)
	go func() {
		code <- run(ctx, []string{"receive", "--listen", "127.0.0.1:0", "--dir", dir, "--token-env", "TOKEN"}, nil, &out, &errs)
	}()
	_, addr, _ := strings.Cut(strings.TrimSpace(errs.await(t, "listening at")), " at ")
	s, err := remote.NewSender(addr, &remote.SenderOptions{Token: "0123456789abcdef"})
	must(t, err)
	rec := recorder.Stream(&recorder.Options{Tee: s})
	_, err = rec.Append(named("hello"))
	must(t, err)
	must(t, rec.Close(t.Context()))
	name, rest, _ := strings.Cut(out.await(t, "\n"), "\t")
	if !strings.HasPrefix(rest, "3 entries\t") {
		t.Errorf("it prints %q", rest)
	}
	if got := fine(t, nil, "cat", name); strings.Count(got, "\n") != 3 || !strings.Contains(got, "hello") {
		t.Errorf("the file has %q", got)
	}
	cancel()
	if got := <-code; got != exitFine {
		t.Errorf("exit %d: %s", got, &errs)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("the folder has %v, %v", list, err)
	}
}

func TestReceiveUsage(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_ENTRACE_TOKEN", "")
	t.Chdir(t.TempDir())
	must(t, os.WriteFile("empty.pem", nil, 0o600))
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"--listen tls://127.0.0.1:0", exitUsage, "tls-cert"},
		{"--listen 127.0.0.1:0 --tls-cert x", exitUsage, "tls-key"},
		{"--listen 127.0.0.1:0 --client-ca x", exitUsage, "tls-cert"},
		{"--listen 127.0.0.1:0 --max-connections 0", exitUsage, "max-connections"},
		{"--listen 127.0.0.1:0 --max-bytes 1.5GiB", exitUsage, "not a size such as 1000, 10KB, 64MiB or 2GiB"},
		{"--listen 127.0.0.1:0 --max-files -1", exitUsage, "max-files"},
		{"--listen 127.0.0.1:0 --max-buffer 0", exitUsage, "max-buffer"},
		{"--listen 127.0.0.1:0 --dir empty.pem", exitData, "mkdir empty.pem: "},
		{"--listen 127.0.0.1:0 --tls-cert empty.pem --tls-key empty.pem", exitData, "PEM"},
		{"--listen 0.0.0.0:0", exitData, "wants a token or client certificates"},
		{"--listen http://127.0.0.1:0", exitData, "want tcp://"},
		{"--listen " + filepath.Join("unix:", "x"), exitData, "port"},
		{"file", exitUsage, "file"},
	} {
		code, _, errs := entrace(t, nil, append([]string{"receive"}, strings.Fields(tt.args)...)...)
		if code != tt.code || !strings.Contains(errs, tt.want) {
			t.Errorf("receive %s: exit %d, %q, want %d and %q", tt.args, code, errs, tt.code, tt.want)
		}
	}
}
