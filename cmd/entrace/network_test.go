package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/remote"
)

func TestReceive(t *testing.T) {
	const token = "0123456789abcdef"
	t.Setenv("TOKEN", token)
	dir := t.TempDir()
	c := start(t, "receive", "--listen", "127.0.0.1:0", "--dir", dir, "--token-env", "TOKEN")
	c.await(&c.errs, "listening at")
	_, addr, _ := strings.Cut(strings.TrimSpace(c.errs.String()), " at ")
	s, err := remote.NewSender(addr, &remote.SenderOptions{Token: token})
	must(t, err)
	rec := recorder.Stream(&recorder.Options{Tee: s})
	_, err = rec.Append(named("hello"))
	must(t, err)
	must(t, rec.Close(t.Context()))
	c.await(&c.out, "\n")
	name, rest, _ := strings.Cut(c.out.String(), "\t")
	if !strings.HasPrefix(rest, "3 entries\t") {
		t.Errorf("it prints %q", rest)
	}
	if got := fine(t, nil, "cat", name); strings.Count(got, "\n") != 3 || !strings.Contains(got, "hello") {
		t.Errorf("the file has %q", got)
	}
	c.stop()
	c.exit(exitFine)
	expect.Len(t, hosttest.Names(t, dir), 1, "the folder has")
}

// ask sends a request to a viewer, and returns the status and the body of the answer.
func ask(t *testing.T, address, token, host string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	must(t, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	r.Host = host
	answer, err := http.DefaultClient.Do(r)
	must(t, err)
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	must(t, err)
	return answer.StatusCode, string(b)
}

// viewerAt waits until the viewer has an address, and returns the address and the token.
func viewerAt(c *process) (address, token string) {
	c.t.Helper()
	c.await(&c.out, "\n")
	found := regexp.MustCompile(`^entrace: viewer at (http://127\.0\.0\.1:\d+/)#token=(\w{20,})\n$`).FindStringSubmatch(c.out.String())
	if found == nil {
		c.t.Fatalf("it prints no address for this machine: %s", &c.out)
	}
	return found[1], found[2]
}

// TestViewCommand checks that view serves a trace only to clients with the token, and ends when it is
// interrupted.
func TestViewCommand(t *testing.T) {
	t.Parallel()
	c := start(t, "view", "--no-open", ended(t, "sample"))
	address, token := viewerAt(c)
	for _, x := range []struct {
		path, token, host string
		want              int
	}{
		{"", "", "", 200},
		{"api/meta", token, "", 200},
		{"api/meta", "", "", 401},
		{"api/meta", token + "x", "", 401},
		{"api/meta", token, "evil.example", 403},
		{"", "", "evil.example", 403},
	} {
		if got, _ := ask(t, address+x.path, x.token, x.host); got != x.want {
			t.Errorf("%+v: %d", x, got)
		}
	}
	c.stop()
	c.exit(exitFine)
	expect.Equal(t, c.errs.String(), "", "it says")
}

// TestViewFollowWaitsForTheFirstFile serves a folder that has no trace yet, and a file that does not
// exist. The page is available at once, says that it waits, and shows the trace as soon as it exists.
func TestViewFollowWaitsForTheFirstFile(t *testing.T) {
	t.Parallel()
	for _, base := range []string{".", "app.et"} {
		dir := t.TempDir()
		name := filepath.Join(dir, base)
		c := start(t, "view", "--no-open", "--follow", name)
		c.await(&c.errs, "waiting for "+name+"\n")
		address, token := viewerAt(c)
		for _, x := range []struct {
			path, token string
			status      int
			has         string
		}{
			{"", "", http.StatusOK, "<title>entrace</title>"},
			{"api/meta", token, http.StatusOK, `{"waiting":"waiting for `},
			{"api/meta", "", http.StatusUnauthorized, "error"},
			{"api/top", token, http.StatusServiceUnavailable, "waiting for "},
		} {
			if status, body := ask(t, address+x.path, x.token, ""); status != x.status || !strings.Contains(body, x.has) {
				t.Errorf("while there is no %s, /%s is answered with %d, %s", name, x.path, status, body)
			}
		}
		must(t, traceOf("sample", filepath.Join(dir, "app.et")).Close(t.Context()))
		for t.Context().Err() == nil {
			if status, body := ask(t, address+"api/meta", token, ""); !strings.Contains(body, "waiting") {
				if status != http.StatusOK || !strings.Contains(body, `"state":"ended"`) {
					t.Errorf("the trace that came later is answered with %d, %s", status, body)
				}
				break
			}
		}
		c.stop()
		c.exit(exitFine)
	}
}

// TestViewFollowsARunningProgram checks that view follows the file of a running program, but not with
// --follow=false.
func TestViewFollowsARunningProgram(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "app.et")
	rec := traceOf("sample", name)
	defer func() { must(t, rec.Close(t.Context())) }()
	for flag, want := range map[string]string{"--once": `"follow":true`, "--follow=false": `"follow":false`} {
		c := start(t, "view", "--no-open", flag, name)
		address, token := viewerAt(c)
		if status, body := ask(t, address+"api/meta", token, ""); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: the page of a running program is answered with %d, %s", flag, status, body)
		}
		c.stop()
		c.exit(exitFine)
	}
}

// TestViewChooses serves the list of recordings to clients with the token, and then the two that are chosen.
func TestViewChooses(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, traceOf("requests", "old.et").Close(t.Context()))
	must(t, traceOf("sample", "new.et").Close(t.Context()))
	must(t, os.Chtimes("old.et", time.Time{}, time.Now().Add(-time.Hour)))
	c := start(t, "view", "--no-open")
	address, token := viewerAt(c)
	for _, x := range []struct {
		path, token string
		status      int
		has         string
	}{
		{"api/meta", "", http.StatusUnauthorized, "error"},
		{"api/meta", token, http.StatusOK, `"runs":[{"name":"new.et","text":"`},
		{"api/choose?run=new.et&against=old.et", "", http.StatusUnauthorized, "error"},
		{"api/choose", token, http.StatusOK, ""},
		{"api/choose?run=/etc/passwd", token, http.StatusOK, ""},
		{"api/choose?run=new.et&against=/etc/passwd", token, http.StatusOK, ""},
		{"api/meta", token, http.StatusOK, `"runs":`},
		{"api/choose?run=new.et&against=old.et", token, http.StatusOK, ""},
	} {
		if status, body := ask(t, address+x.path, x.token, ""); status != x.status || !strings.Contains(body, x.has) {
			t.Errorf("/%s is answered with %d, %s", x.path, status, body)
		}
	}
	for t.Context().Err() == nil {
		if _, body := ask(t, address+"api/meta", token, ""); !strings.Contains(body, "waiting") {
			if !strings.Contains(body, `"against":"old.et"`) || !strings.Contains(body, `"name":"new.et"`) {
				t.Errorf("what is chosen is answered with %s", body)
			}
			break
		}
	}
	c.stop()
	c.exit(exitFine)
}

// TestViewSaysWhereItListens checks the message of a viewer that listens on all interfaces.
func TestViewSaysWhereItListens(t *testing.T) {
	t.Parallel()
	c := start(t, "view", "--no-open", "--follow", "--listen", "0.0.0.0:0", t.TempDir())
	c.await(&c.errs, "waiting for ")
	address, _ := viewerAt(c)
	port := strings.TrimSuffix(address[strings.LastIndexByte(address, ':'):], "/")
	if all := regexp.MustCompile(`other machines can reach (0\.0\.0\.0|\[::\])` + port + `;`); !all.MatchString(c.errs.String()) {
		t.Errorf("it does not say that it listens on all interfaces: %s", &c.errs)
	}
	c.stop()
	c.exit(exitFine)
}

// TestViewServerEndsIdleConnections checks the time limits of the server.
func TestViewServerEndsIdleConnections(t *testing.T) {
	t.Parallel()
	if s := viewServer(nil); s.IdleTimeout <= 0 || s.ReadHeaderTimeout <= 0 {
		t.Errorf("a connection may be idle for %v and send a head for %v, want limits", s.IdleTimeout, s.ReadHeaderTimeout)
	}
}

// TestRecoverFolder makes traces of the files of a dead flight recorder. A copy of the
// ring of a living process stands in for the ring of a dead one.
func TestRecoverFolder(t *testing.T) {
	t.Parallel()
	live, dir := filepath.Join(t.TempDir(), "traces"), t.TempDir()
	ctl, err := control.New(&control.Options{Service: "shop", BufferDir: live, Config: &control.Config{
		ID: "c", Dir: live, Ring: control.RingConfig{Bytes: 4 << 20, Persist: true, Always: control.Logs},
	}})
	must(t, err)
	defer ctl.Shutdown(t.Context())
	rings, _ := filepath.Glob(filepath.Join(live, "*.ring"))
	if len(rings) != 1 {
		if runtime.GOOS == "linux" {
			t.Fatalf("there are the rings %q, want one", rings)
		}
		t.Skip("no ring in a file here")
	}
	for range 3 {
		must(t, ctl.Recorder().Log(format.SpanRef{}, logged("said")))
	}
	b := read(t, rings[0])
	left, mine := filepath.Join(dir, filepath.Base(rings[0])), filepath.Join(dir, "ring-mine.ring")
	leave := func() {
		must(t, os.WriteFile(left, b, 0o600))
		must(t, os.WriteFile(strings.TrimSuffix(left, ".ring")+".crash", []byte("panic: \x1b[31mboom\n\ngoroutine 1"), 0o600))
	}
	leave()
	must(t, os.WriteFile(mine, []byte("not a ring"), 0o600))
	expect.Has(t, fine(t, nil, "recover", live), "nothing to recover", "of a living process")
	code, out, errs := entrace(t, nil, "recover", dir)
	if code == 0 || !strings.Contains(out, `-crash.et: finished, 7 entries; killed, recovered (crash: panic: boom)`) || !strings.Contains(errs, "ring-mine.ring") {
		t.Errorf("%d\n%s\n%s", code, out, errs)
	}
	list, _ := filepath.Glob(filepath.Join(dir, "*-crash.et"))
	if len(list) != 1 {
		t.Fatalf("there are %q", list)
	}
	if out := fine(t, nil, "tree", list[0]); strings.Count(out, "TRACE said") != 3 || !strings.Contains(out, "ERROR entrace.trace") || !strings.Contains(out, "crash") {
		t.Errorf("the tree is\n%s", out)
	}
	must(t, os.Remove(mine))
	expect.Has(t, fine(t, nil, "recover", dir), "nothing to recover", "a second time")
	leave() // restore the state of a recovery that was killed just before its end
	var c recovery
	if out := fine(t, nil, "recover", "--json", dir); json.Unmarshal([]byte(out), &c) != nil || filepath.Base(c.File) != filepath.Base(left) || c.State == "" || filepath.Base(c.Output) != filepath.Base(list[0]) {
		t.Errorf("as JSON: %s", out)
	}
}
