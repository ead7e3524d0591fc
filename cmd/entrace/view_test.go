package main

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestViewCommand serves a trace to who has the address, and ends when it is told to.
func TestViewCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	rec := sampleTrace(t, "app.et")
	must(t, rec.Close(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	var out, errs lockedBuffer
	done := make(chan int)
	go func() {
		done <- run(ctx, []string{"view", "--no-open", "app.et"}, nil, &out, &errs)
	}()
	line := regexp.MustCompile(`^entrace: viewer at (http://127\.0\.0\.1:\d+/)#token=(\w{20,})\n$`)
	var found []string
	for found == nil {
		time.Sleep(time.Millisecond)
		found = line.FindStringSubmatch(out.String())
	}
	get := func(path, token, host string) int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, found[1]+path, nil)
		must(t, err)
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		if host != "" {
			r.Host = host
		}
		answer, err := http.DefaultClient.Do(r)
		must(t, err)
		defer answer.Body.Close()
		_, err = io.Copy(io.Discard, answer.Body)
		must(t, err)
		return answer.StatusCode
	}
	for _, x := range []struct {
		path, token, host string
		want              int
	}{
		{"", "", "", 200},
		{"api/meta", found[2], "", 200},
		{"api/meta", "", "", 401},
		{"api/meta", found[2] + "x", "", 401},
		{"api/meta", found[2], "evil.example", 403},
		{"", "", "evil.example", 403},
	} {
		if got := get(x.path, x.token, x.host); got != x.want {
			t.Errorf("%+v: %d", x, got)
		}
	}
	cancel()
	if code := <-done; code != exitFine || errs.String() != "" {
		t.Errorf("exit %d, %s", code, errs.String())
	}
	for _, args := range []string{"view missing.et --no-open", "view app.et --state x", "view app.et --state ?a#b", "view app.et --editor javascript:alert(1)", "view app.et --listen nowhere:x"} {
		if code, out, errs := entrace(t, nil, strings.Fields(args)...); code == exitFine || errs == "" || out != "" {
			t.Errorf("%s: exit %d, %s%s", args, code, out, errs)
		}
	}
}

// TestViewFollowWaitsForTheFirstFile serves a folder that has no trace yet, and a file that is not
// there: the page is there at once, says what it waits for, and shows the trace when it comes.
func TestViewFollowWaitsForTheFirstFile(t *testing.T) {
	for _, name := range []string{".", "app.et"} {
		t.Chdir(t.TempDir())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var out, errs lockedBuffer
		done := make(chan int)
		go func() { done <- run(ctx, []string{"view", "--no-open", "--follow", name}, nil, &out, &errs) }()
		for !strings.Contains(errs.String(), "waiting for "+name+"\n") {
			select {
			case code := <-done:
				t.Fatalf("exit %d: %s", code, errs.String())
			case <-time.After(time.Millisecond):
			}
		}
		address, token, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(out.String(), "entrace: viewer at ")), "#token=")
		get := func(path, token string) (status int, body string) {
			t.Helper()
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, address+path, nil)
			must(t, err)
			r.Header.Set("Authorization", "Bearer "+token)
			answer, err := http.DefaultClient.Do(r)
			must(t, err)
			defer answer.Body.Close()
			b, err := io.ReadAll(answer.Body)
			must(t, err)
			return answer.StatusCode, string(b)
		}
		for _, x := range []struct {
			path, token string
			status      int
			has         string
		}{
			{"", "", http.StatusOK, "<title>entrace</title>"},
			{"api/meta", token, http.StatusOK, `{"waiting":"waiting for ` + name + `"}`},
			{"api/meta", "", http.StatusUnauthorized, "error"},
			{"api/top", token, http.StatusServiceUnavailable, "waiting for " + name},
		} {
			if status, body := get(x.path, x.token); status != x.status || !strings.Contains(body, x.has) {
				t.Errorf("while there is no %s, /%s is answered with %d, %s", name, x.path, status, body)
			}
		}
		must(t, sampleTrace(t, "app.et").Close(t.Context()))
		for ctx.Err() == nil {
			if status, body := get("api/meta", token); !strings.Contains(body, "waiting") {
				if status != http.StatusOK || !strings.Contains(body, `"state":"ended"`) {
					t.Errorf("the trace that came later is answered with %d, %s", status, body)
				}
				break
			}
		}
		cancel()
		if code := <-done; code != exitFine {
			t.Errorf("exit %d: %s", code, errs.String())
		}
	}
}

// TestViewSaysWhereItListens listens on all interfaces.
func TestViewSaysWhereItListens(t *testing.T) {
	t.Chdir(t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, errs lockedBuffer
	done := make(chan int)
	go func() {
		done <- run(ctx, []string{"view", "--no-open", "--follow", "--listen", "0.0.0.0:0", "."}, nil, &out, &errs)
	}()
	for !strings.Contains(errs.String(), "waiting for .") {
		select {
		case code := <-done:
			t.Fatalf("exit %d: %s", code, errs.String())
		case <-time.After(time.Millisecond):
		}
	}
	port := regexp.MustCompile(`http://127\.0\.0\.1:(\d+)/`).FindStringSubmatch(out.String())
	if port == nil {
		t.Fatalf("it prints no address for this machine: %s", out.String())
	}
	if all := regexp.MustCompile(`others can reach (0\.0\.0\.0|\[::\]):` + port[1] + `;`); !all.MatchString(errs.String()) {
		t.Errorf("it does not say that it listens on all interfaces: %s", errs.String())
	}
	cancel()
	if code := <-done; code != exitFine {
		t.Errorf("exit %d: %s", code, errs.String())
	}
}

// TestViewServerEndsIdleConnections looks at the limits of the server.
func TestViewServerEndsIdleConnections(t *testing.T) {
	s := viewServer(nil)
	if s.IdleTimeout <= 0 || s.ReadHeaderTimeout <= 0 {
		t.Errorf("a connection may be idle for %v and send a head for %v, want limits", s.IdleTimeout, s.ReadHeaderTimeout)
	}
}
