package remote_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/remote"
)

// TestAnnounced checks that the name of a file has the service's name, made safe, and that OnBegun is called for
// the file.
func TestAnnounced(t *testing.T) {
	for service, want := range map[string]string{"shop": "shop-", "a/b c": "a%2Fb%20c-", "": ""} {
		var mu sync.Mutex
		var begun []remote.Received
		v := receive(t, remote.Receiver{Dir: t.TempDir(), Token: strings.Repeat("t", 16), OnBegun: func(r remote.Received) {
			mu.Lock()
			defer mu.Unlock()
			begun = append(begun, r)
		}}, "tcp://127.0.0.1:0")
		s := sender(t, v.addr, remote.SenderOptions{Token: strings.Repeat("t", 16)})
		rec := recorder.Stream(&recorder.Options{Tee: s})
		res := &format.TraceEntry{Metadata: format.Metadata{Name: format.NameResource, Level: format.LevelInfo}}
		if service != "" {
			res.Message = format.Some(service)
		}
		_, err := rec.Resource(res)
		must(t, err)
		must(t, rec.Log(format.SpanRef{}, named(0, "event")))
		must(t, rec.Close(t.Context()))
		got := v.await(1)[0]
		name := filepath.Base(got.Path)
		if !regexp.MustCompile(`^` + want + `\d{8}T\d{6}\.\d{3}Z-\d{6}\.et$`).MatchString(name) {
			t.Errorf("%q: the file is %s, %v", service, name, got.Err)
		}
		mu.Lock()
		if len(begun) != 1 || strings.TrimSuffix(begun[0].Path, ".iet") != strings.TrimSuffix(got.Path, ".et") || begun[0].Sender == nil {
			t.Errorf("announced was %+v", begun)
		}
		mu.Unlock()
		v.end()
	}
}

// TestSaysWhatToChange connects a sender and a receiver with settings that do not fit together. The error of one of
// them must say which setting to change.
func TestSaysWhatToChange(t *testing.T) {
	for first, want := range map[string]string{
		"\x16\x03\x01":   "--tls-cert and --tls-key",
		"ENTRACE-TOKEN ": "--token-env",
		"GET / HTTP/1.1": "HTTP",
	} {
		v := receive(t, remote.Receiver{Dir: t.TempDir()}, "tcp://127.0.0.1:0")
		c := v.dial()
		_, err := c.Write([]byte(first))
		must(t, err)
		expect.Says(t, v.await(1)[0].Err, want, "%q: the error", first)
		v.end()
	}
	for _, token := range []string{"", strings.Repeat("x", 16)} {
		v := receive(t, remote.Receiver{Dir: t.TempDir(), Token: strings.Repeat("t", 16)}, "tcp://127.0.0.1:0")
		told := make(chan error, 100)
		s := sender(t, v.addr, remote.SenderOptions{Token: token, OnError: func(err error) { told <- err }})
		rec := recorder.Stream(&recorder.Options{Tee: s})
		must(t, rec.Log(format.SpanRef{}, named(0, "event")))
		expect.Says(t, <-told, "OTEL_EXPORTER_ENTRACE_TOKEN", "the sender with token %q is told", token)
		_ = rec.Close(t.Context()) // which fails
		v.end()
	}
}
