package httpapi

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

func TestHandlerLocal(t *testing.T) {
	f := newRig(t)
	h := New(f.Control, nil)
	for _, c := range []struct {
		remote, host string
		want         int
	}{
		{"127.0.0.1:1", "localhost", 200},
		{"127.0.0.1:1", "localhost:80", 200},
		{"127.0.0.1:1", "LocalHost:80", 200},
		{"127.9.9.9:1", "127.0.0.1", 200},
		{"127.0.0.1:1", "127.1.2.3:8080", 200},
		{"[::1]:1", "[::1]", 200},
		{"[::1]:1", "[::1]:8080", 200},
		{"[::ffff:127.0.0.1]:1", "localhost", 200},
		{"192.0.2.1:1", "localhost", 403},
		{"[2001:db8::1]:1", "localhost", 403},
		{"[::ffff:192.0.2.1]:1", "localhost", 403},
		{"0.0.0.0:1", "localhost", 403},
		{"127.0.0.1", "localhost", 403}, // some middleware sets such an address from a header
		{"", "localhost", 403},
		{"@", "localhost", 403},
		{"localhost:1", "localhost", 403},
		{"127.0.0.1:1", "", 403},
		{"127.0.0.1:1", ":80", 403},
		{"127.0.0.1:1", "localhost.evil.com", 403},
		{"127.0.0.1:1", "localhost.evil.com:80", 403},
		{"127.0.0.1:1", "evil.com", 403},
		{"127.0.0.1:1", "localhost.", 403},
		{"127.0.0.1:1", "localhost:", 403},
		{"127.0.0.1:1", "localhost:x", 403},
		{"127.0.0.1:1", "localhost:80:80", 403},
		{"127.0.0.1:1", "localhost:99999", 403},
		{"127.0.0.1:1", "user@localhost", 403},
		{"127.0.0.1:1", "127.0.0.1.evil.com", 403},
		{"127.0.0.1:1", "127.1", 403},
		{"127.0.0.1:1", "0177.0.0.1", 403},
		{"127.0.0.1:1", "2130706433", 403},
		{"127.0.0.1:1", "0.0.0.0", 403},
		{"127.0.0.1:1", "192.168.0.1:80", 403},
		{"127.0.0.1:1", "::1", 403},
		{"127.0.0.1:1", "::1:80", 403},
		{"127.0.0.1:1", "[::1", 403},
		{"127.0.0.1:1", "[::1]x", 403},
		{"127.0.0.1:1", "[::1%25lo]", 403},
		{"127.0.0.1:1", "[::]", 403},
		{"127.0.0.1:1", "[::ffff:127.0.0.1]", 403},
		{"127.0.0.1:1", "[127.0.0.1]", 403},
	} {
		for _, method := range []string{"GET", "POST"} {
			target, want := "/", c.want
			if method == "POST" {
				target = "/snapshot"
				want = map[int]int{200: 201, 403: 403}[want]
			}
			w := ask(h, method, target, "", func(r *http.Request) { r.RemoteAddr, r.Host = c.remote, c.host })
			expect.Equal(t, w.Code, want, "%s from %q for %q", method, c.remote, c.host)
			if w.Code == 403 && !strings.Contains(answerOf(t, w)["error"].(string), "Token") {
				t.Errorf("the answer does not say what to do: %s", w.Body)
			}
		}
	}
	for _, target := range []string{"http://localhost:8080/", "http://evil.com/"} {
		expect.Equal(t, ask(h, "GET", target, "").Code, 403, "GET %s", target)
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Real-IP", "X-Forwarded-Host", "X-Forwarded-Proto", "Via", "True-Client-IP", "CF-Connecting-IP"} {
		expect.Equal(t, ask(h, "GET", "/", "", header(name, "127.0.0.1")).Code, 403, "with %s", name)
	}
}

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

func TestHandlerToken(t *testing.T) {
	const token = "0123456789abcdef"
	remote := func(r *http.Request) { r.RemoteAddr, r.Host = "192.0.2.1:1", "example.com" }
	for _, c := range []struct {
		token string
		given []string
		want  int
	}{
		{token, []string{"Bearer " + token}, 200},
		{token, []string{"bearer " + token}, 200},
		{token, nil, 401},
		{token, []string{""}, 401},
		{token, []string{"Bearer"}, 401},
		{token, []string{"Bearer "}, 401},
		{token, []string{"Bearer " + token[:15]}, 401},
		{token, []string{"Bearer " + token + "0"}, 401},
		{token, []string{"Bearer x123456789abcdef"}, 401},
		{token, []string{"Basic " + token}, 401},
		{token, []string{token}, 401},
		{token, []string{"Bearer " + token, "Bearer x"}, 401},
		{token[:15], []string{"Bearer " + token[:15]}, 500},
		{token[:15], nil, 500},
	} {
		h := New(newRig(t).Control, &Options{Token: c.token})
		w := ask(h, "GET", "/", "", remote, func(r *http.Request) { r.Header["Authorization"] = c.given })
		expect.Equal(t, w.Code, c.want, "token %q, given %q", c.token, c.given)
		if challenge := w.Header().Get("WWW-Authenticate"); (challenge != "") != (w.Code == 401) {
			t.Errorf("token %q, given %q: the challenge is %q", c.token, c.given, challenge)
		}
		if strings.Contains(w.Body.String(), c.token) {
			t.Errorf("the answer has the token: %s", w.Body)
		}
	}
	// A token that is too short is refused even from this machine, and a right token does not allow
	// requests of other sites.
	expect.Equal(t, ask(New(newRig(t).Control, &Options{Token: "short"}), "GET", "/", "").Code, 500, "a short token")
	h := New(newRig(t).Control, &Options{Token: token})
	expect.Equal(t, ask(h, "GET", "/", "").Code, 401, "from this machine without the token")
	expect.Equal(t, ask(h, "GET", "/", "", header("Authorization", "Bearer "+token), header("Sec-Fetch-Site", "cross-site")).Code, 403, "from another site with the token")
}

func TestHandlerCrossSite(t *testing.T) {
	f := newRig(t)
	h := New(f.Control, nil)
	for _, c := range []struct {
		name, value string
		refused     bool
	}{
		{"Sec-Fetch-Site", "same-origin", false},
		{"Sec-Fetch-Site", "none", false},
		{"Sec-Fetch-Site", "same-site", true},
		{"Sec-Fetch-Site", "cross-site", true},
		{"Sec-Fetch-Site", "", true},
		{"Sec-Fetch-Site", "other", true},
		{"Origin", "http://localhost:8080", false},
		{"Origin", "https://localhost:8080", false}, // a proxy may terminate TLS
		{"Origin", "http://LOCALHOST:8080", false},
		{"Origin", "http://localhost", true},
		{"Origin", "http://localhost:9090", true},
		{"Origin", "http://127.0.0.1:8080", true},
		{"Origin", "http://evil.com", true},
		{"Origin", "http://localhost:8080.evil.com", true},
		{"Origin", "null", true},
		{"Origin", "", true},
		{"Origin", "http://", true},
		{"Origin", "file://localhost:8080", true},
		{"Origin", "localhost:8080", true},
		{"Origin", "http://localhost:8080/", true},
	} {
		for _, q := range [][2]string{{"GET", "/"}, {"HEAD", "/"}, {"POST", "/snapshot"}, {"POST", "/stop/1"}, {"OPTIONS", "/snapshot"}, {"GET", "/traces/x"}} {
			w := ask(h, q[0], q[1], "", header(c.name, c.value))
			if (w.Code == 403) != c.refused {
				t.Errorf("%s %s with %s %q: %d, want refused %v", q[0], q[1], c.name, c.value, w.Code, c.refused)
			}
			for name := range w.Header() {
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("the answer has %s", name)
				}
			}
		}
	}
	expect.Equal(t, ask(h, "GET", "/", "", header("Origin", "http://localhost:8080"), header("Origin", "http://evil.com")).Code, 403, "two origins")
	expect.Equal(t, ask(h, "GET", "/", "", header("Origin", "http://"), func(r *http.Request) { r.Host = "" }).Code, 403, "an empty origin for an empty host")
	for origin, want := range map[string]int{"https://localhost:8080": 200, "http://localhost:8080": 403} {
		w := ask(h, "GET", "/", "", header("Origin", origin), func(r *http.Request) { r.TLS = &tls.ConnectionState{} })
		expect.Equal(t, w.Code, want, "with TLS from %s", origin)
	}
}
