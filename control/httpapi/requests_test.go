package httpapi

import (
	"crypto/tls"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

var update = flag.Bool("update", false, "write the expected answers in testdata again")

// TestRequests sends the requests in testdata/requests.txt, whose head explains their words.
func TestRequests(t *testing.T) {
	tracetest.Golden(t, "testdata/requests.txt", *update, func(lines string) (said string) {
		t.Run(lines, func(t *testing.T) { said = answers(t, strings.Split(lines, "\n")) })
		return said
	})
}

var requestTexts = map[string]any{"x1024": strings.Repeat("x", 1024), "x1025": strings.Repeat("x", 1025), "many": manyParameters()}

func manyParameters() string {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, "&%d%s=", i, strings.Repeat("x", 200))
	}
	return b.String()
}

// limited are traces that the control refuses for various reasons.
func limited() []control.TraceConfig {
	list := []control.TraceConfig{
		{Name: "rare", On: byHTTP, Every: 90 * time.Second},
		{Name: "few", On: byHTTP, PerHour: 1},
		{Name: "half", On: byHTTP, OneIn: 2},
		{Name: "second", On: []control.On{{Trigger: control.TriggerHTTP, Count: 3}}},
		{Name: "none", On: byHTTP, Providers: control.CPUProfile, Mode: control.ModeStream},
	}
	for i := range 5 {
		list = append(list, control.TraceConfig{Name: fmt.Sprint("s", i+1), On: byHTTP, Mode: control.ModeStream})
	}
	return list
}

// answers sends the requests of a case, and returns a line for each answer.
func answers(t *testing.T, lines []string) string {
	var traces []control.TraceConfig
	var o Options
	var said strings.Builder
	for _, p := range tracetest.Commands(lines[0], requestTexts)[0].Attributes {
		text, _ := p.Value.(string)
		switch p.Key {
		case "token":
			o.Token = text
		case "viewer":
			o.Viewer = text
		case "limited":
			traces = limited()
		}
	}
	if strings.HasPrefix(lines[0], "handler") {
		lines = lines[1:]
	}
	r := newRig(t, traces...)
	folder(t, r)
	h, id := New(r.Control, &o), ""
	for _, line := range lines {
		c := tracetest.Commands(line, requestTexts)[0]
		switch c.Words[0] {
		case "remove":
			must(t, os.RemoveAll(r.Dir()))
			continue
		case "shutdown":
			must(t, r.Shutdown(t.Context()))
			continue
		}
		before := r.asked()
		target := strings.Replace(strings.Join(c.Words[1:], ""), "ID", id, 1)
		w := ask(h, http.MethodGet, "/", func(q *http.Request) {
			for _, p := range c.Attributes {
				text, _ := p.Value.(string)
				switch p.Key {
				case "from":
					q.RemoteAddr = text
				case "to":
					q.Host = text
				case "body":
					*q = *httptest.NewRequest(http.MethodPost, "/", strings.NewReader(text))
					q.RemoteAddr, q.Host = "127.0.0.1:4711", "localhost:8080"
				case "chunked":
					q.ContentLength = -1
				case "url":
					q.URL.Scheme, q.URL.Host = "http", text
				case "tls":
					q.TLS = &tls.ConnectionState{}
				default:
					q.Header.Add(p.Key, text)
				}
			}
			q.Method = c.Words[0]
			q.URL.Path, q.URL.RawQuery, _ = strings.Cut(target, "?")
		})
		fmt.Fprintf(&said, "%.100s: %d", strings.ReplaceAll(line, `"`, ""), w.Code)
		for _, name := range []string{"Allow", "Retry-After", "WWW-Authenticate", "Content-Disposition", "Content-Range"} {
			if value := w.Header().Get(name); value != "" {
				fmt.Fprintf(&said, " %s: %s,", name, value)
			}
		}
		for name := range w.Header() {
			if strings.HasPrefix(name, "Access-Control-") {
				t.Errorf("%s: the answer has %s", line, name)
			}
		}
		if w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: the header is %v", line, w.Header())
		}
		if kind := w.Header().Get("Content-Type"); kind != "application/json" {
			fmt.Fprintf(&said, " %s of %d bytes\n", kind, w.Body.Len())
			continue
		}
		if text := w.Body.String(); len(text) > 8<<10 || o.Token != "" && strings.Contains(text, o.Token) || strings.Contains(text, "secret") {
			t.Errorf("%s: the answer is %.9000s", line, text)
		}
		v := answerOf(t, w)
		for _, name := range []string{"verdict", "trace", "viewer", "error", "mode", "config", "files_total"} {
			switch value, is := v[name]; {
			case !is || name == "config" && v["id"] == nil || name == "error" && v["verdict"] == "failed": // such an error names a file
			default:
				fmt.Fprintf(&said, " %s=%v", name, value)
			}
		}
		id, _ = v["id"].(string)
		file, _ := v["file"].(string)
		if at := w.Header().Get("Location"); w.Code == http.StatusCreated && at != tracesDir+file {
			t.Errorf("%s: the file is %s, and it is at %q", line, file, at)
		}
		if w.Code == http.StatusCreated {
			made := r.Running() // a stream; a snapshot has ended
			if v["mode"] == "snapshot" {
				made = []*control.Trace{<-r.made}
			}
			q := made[len(made)-1].Request
			fmt.Fprintf(&said, ", asked by %s %s, name %q, window %v, timeout %v, manual %t, reason %.20q", q.Trigger, q.Key, q.Name, q.Window, q.Timeout, q.Manual, q.Reason)
		}
		said.WriteString("\n")
		if n := r.asked() - before; n > 0 && (c.Words[0] != "POST" || w.Code == http.StatusBadRequest || w.Code == http.StatusForbidden) {
			t.Errorf("%s asks for %d traces", line, n)
		}
	}
	return said.String()
}

// folder fills the folder of a control: with one trace, and with files that must not be served.
func folder(t *testing.T, r *rig) {
	t.Helper()
	name := r.put(t, day, 5, false)
	other := func(id string) string { return filepath.Join(r.Dir(), strings.Replace(name, "7-0001", id, 1)) }
	must(t, os.Mkdir(other("1-0002"), 0o700))
	_ = os.Symlink("notes.txt", other("1-0004")) // if the system has links
	if mkfifo, err := exec.LookPath("mkfifo"); err == nil {
		must(t, exec.Command(mkfifo, other("1-0006")).Run())
	}
	for _, path := range []string{"x.et", "notes.txt", "../secret.et", "../" + name, strings.TrimSuffix(name, ".et") + ".iet"} {
		must(t, os.WriteFile(filepath.Join(r.Dir(), path), []byte("secret"), 0o600))
	}
}
