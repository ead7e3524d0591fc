package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var must = expect.Must

// A rig is a control. Tests make handlers for it.
type rig struct {
	*control.Control

	made chan *control.Trace // the traces that OnTrace gets, while there is room
}

var byHTTP = []control.On{{Trigger: control.TriggerHTTP}}

// configOf returns a configuration with these traces.
func configOf(dir string, traces ...control.TraceConfig) *control.Config {
	for i := range traces {
		if t := &traces[i]; t.Providers == 0 {
			t.Providers = control.Logs
		}
	}
	return &control.Config{ID: "prod", Dir: dir, Ring: control.RingConfig{Bytes: 4 << 20, Always: control.Logs}, Traces: traces}
}

// newRig returns a rig with the given traces. The default is a snapshot and a stream without limits.
func newRig(t testing.TB, traces ...control.TraceConfig) *rig {
	t.Helper()
	if len(traces) == 0 {
		traces = []control.TraceConfig{{Name: "any", On: byHTTP}, {Name: "deep", Mode: control.ModeStream, On: byHTTP}}
	}
	return rigOf(t, control.Options{Config: configOf(hosttest.TraceDir(t), traces...)})
}

func rigOf(t testing.TB, o control.Options) *rig {
	t.Helper()
	r := &rig{made: make(chan *control.Trace, 1000)}
	o.OnTrace = func(t *control.Trace) {
		select {
		case r.made <- t:
		default:
		}
	}
	var err error
	r.Control, err = control.New(&o)
	must(t, err)
	t.Cleanup(func() { must(t, r.Shutdown(context.Background())) })
	return r
}

// asked returns the number of requests over HTTP.
func (r *rig) asked() (n uint64) {
	for _, k := range r.Stats().Verdicts[control.TriggerHTTP] {
		n += k
	}
	return n
}

// put writes a file with the name of a trace of the given time.
func (r *rig) put(t testing.TB, at time.Time, size int, manual bool) string {
	t.Helper()
	name := at.UTC().Format("20060102T150405.000000Z") + "-h-7-0001"
	if manual {
		name += "m"
	}
	name += "-c.et"
	must(t, os.WriteFile(r.Dir()+"/"+name, make([]byte, size), 0o600))
	return name
}

var day = time.Date(2026, 11, 20, 21, 27, 12, 21_345_000, time.UTC)

// ask sends a request that seems to come from this machine.
func ask(h http.Handler, method, target string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	r.RemoteAddr, r.Host = "127.0.0.1:4711", "localhost:8080"
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// answerOf decodes a JSON response.
func answerOf(t *testing.T, w *httptest.ResponseRecorder) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("the answer is %s %q: %v", w.Header().Get("Content-Type"), w.Body, err)
	}
	return v
}

// TestHandlerErrors checks the responses to refusals that requests.txt cannot cause.
func TestHandlerErrors(t *testing.T) {
	h := New(newRig(t, control.TraceConfig{Name: "any", On: byHTTP, Every: 90 * time.Second}).Control, nil).(*handler)
	for _, c := range []struct {
		err   error
		want  int
		retry string
	}{
		{&control.DeniedError{Verdict: control.VerdictCoalesced}, 409, ""},
		{&control.DeniedError{Verdict: control.VerdictRateLimited}, 429, "60"},
		{fmt.Errorf("start: %w", &control.DeniedError{Verdict: control.VerdictRateLimited, Trace: "any"}), 429, "90"},
		{errors.New("the disk is full"), 500, ""},
	} {
		w := httptest.NewRecorder()
		fail(w, h.denied(w, c.err))
		if v := answerOf(t, w); w.Code != c.want || w.Header().Get("Retry-After") != c.retry || v["error"] != c.err.Error() {
			t.Errorf("%v: %d %v, Retry-After %q, want %d and %q", c.err, w.Code, v, w.Header().Get("Retry-After"), c.want, c.retry)
		}
	}
	w := httptest.NewRecorder()
	if err := answer(w, 200, math.NaN()); err == nil || w.Body.Len() > 0 {
		t.Errorf("what cannot be encoded: %v, %q", err, w.Body)
	}
}

// A slowDumper blocks each call of Dump until release is closed.
type slowDumper struct{ dumping, release chan struct{} }

var slowBit = control.Register("httpapi.slow")

func (d slowDumper) provider() control.Provider {
	return control.Provider{Provides: slowBit, Dump: func(context.Context, *control.Session) error {
		d.dumping <- struct{}{}
		<-d.release
		return nil
	}}
}

// TestHandlerStopWaits checks that /stop responds after the end of a stream, even if the end takes time.
func TestHandlerStopWaits(t *testing.T) {
	for _, c := range []struct {
		verdict control.Verdict
		keepIf  *control.KeepIf
		want    int
	}{{"", nil, 200}, {control.VerdictConditionUnmet, &control.KeepIf{Any: []string{"a=b"}}, 409}} {
		d := slowDumper{make(chan struct{}, 8), make(chan struct{})}
		r := rigOf(t, control.Options{Providers: []control.Provider{d.provider()}, Config: configOf(t.TempDir(),
			control.TraceConfig{Name: "deep", Mode: control.ModeStream, On: byHTTP, Providers: slowBit | control.Logs, KeepIf: c.keepIf})})
		h := New(r.Control, nil)
		id, _ := answerOf(t, ask(h, "POST", "/start?config=deep"))["id"].(string)
		answered := make(chan *httptest.ResponseRecorder, 1)
		go func() { answered <- ask(h, "POST", "/stop/"+id) }()
		<-d.dumping
		select {
		case <-answered:
			t.Fatal("the answer comes before the end")
		default:
		}
		close(d.release)
		w := <-answered
		got, _ := answerOf(t, w)["verdict"].(string)
		if w.Code != c.want || got != string(c.verdict) {
			t.Errorf("%d %s, want %d %s", w.Code, w.Body, c.want, c.verdict)
		}
	}
	d := slowDumper{make(chan struct{}, 8), make(chan struct{})}
	r := rigOf(t, control.Options{Providers: []control.Provider{d.provider()}, Config: configOf(t.TempDir(),
		control.TraceConfig{Name: "deep", Mode: control.ModeStream, On: byHTTP, Providers: slowBit})})
	h := New(r.Control, nil)
	id, _ := answerOf(t, ask(h, "POST", "/start?config=deep"))["id"].(string)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if w := ask(h, "POST", "/stop/"+id, func(r *http.Request) { *r = *r.WithContext(ctx) }); w.Code != 500 {
		t.Errorf("who asked is gone: %d", w.Code)
	}
	<-d.dumping
	close(d.release)
}

// TestHandlerMounted mounts a handler below various prefixes, and follows the references in its responses.
func TestHandlerMounted(t *testing.T) {
	for _, mount := range []string{"", "/debug/entrace", "/a%20b"} {
		f := newRig(t)
		must(t, f.Recorder().Log(format.SpanRef{}, tracetest.Log("said")))
		same := func(text, file string) bool {
			b := tracetest.ReadFile(t, f.Dir()+"/"+file)
			return text == string(b)
		}
		mux := http.NewServeMux()
		plain := strings.ReplaceAll(mount, "%20", " ")
		h := http.StripPrefix(plain, New(f.Control, nil))
		mux.Handle(mount+"/", h)
		if mount == "/a%20b" {
			mux.Handle(mount, h) // without a slash, the mux would redirect
		}
		s := httptest.NewServer(mux)
		ask := func(method, from, target string) (*http.Response, string) {
			t.Helper()
			r, err := http.NewRequestWithContext(t.Context(), method, from, nil)
			must(t, err)
			r.URL, err = r.URL.Parse(target)
			must(t, err)
			resp, err := s.Client().Do(r)
			must(t, err)
			b, err := io.ReadAll(resp.Body)
			must(t, errors.Join(err, resp.Body.Close()))
			return resp, string(b)
		}
		base := s.URL + mount + "/"
		resp, _ := ask("POST", base, "snapshot?name=any")
		at, err := resp.Location()
		must(t, err)
		if resp, text := ask("GET", base, at.String()); resp.StatusCode != http.StatusOK || !same(text, path.Base(at.Path)) {
			t.Errorf("%q: the snapshot at %s: %d, %d bytes", mount, at, resp.StatusCode, len(text))
		}
		resp, text := ask("POST", base, "start?config=deep&for=20s&manual=1")
		at, err = resp.Location()
		must(t, err)
		var v runningView
		must(t, json.Unmarshal([]byte(text), &v))
		<-f.made
		if got := f.Running()[0].Request; resp.StatusCode != http.StatusCreated || got.Timeout != 20*time.Second || got.Name != "deep" || got.Mode != control.ModeStream || got.Key != "start" || !got.Manual {
			t.Errorf("%q: start: %d, asked for %+v", mount, resp.StatusCode, got)
		}
		if resp, _ := ask("GET", base, at.String()); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%q: the stream that runs: %d, want 404", mount, resp.StatusCode)
		}
		resp, text = ask("POST", base, "stop/"+v.ID)
		v = runningView{}
		must(t, json.Unmarshal([]byte(text), &v))
		if resp.StatusCode != http.StatusOK || v.File == "" || v.Config != "deep" {
			t.Errorf("%q: stop: %d %s", mount, resp.StatusCode, text)
		}
		if resp, text := ask("GET", resp.Request.URL.String(), v.Href); resp.StatusCode != http.StatusOK || !same(text, v.File) || resp.Request.URL.String() != at.String() {
			t.Errorf("%q: the stream at %s: %d, %d bytes", mount, resp.Request.URL, resp.StatusCode, len(text))
		}
		if resp, _ := ask("POST", base, "stop/"+v.ID); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%q: a second stop: %d, want 404", mount, resp.StatusCode)
		}
		for _, from := range []string{base, s.URL + mount} {
			resp, text := ask("GET", from, "")
			var index indexView
			must(t, json.Unmarshal([]byte(text), &index))
			expect.MustLen(t, index.Files, 2, "%q: the list has", from)
			for _, file := range index.Files {
				if resp, _ := ask("GET", resp.Request.URL.String(), file.Href); resp.StatusCode != http.StatusOK {
					t.Errorf("%q: %s: %d", from, resp.Request.URL, resp.StatusCode)
				}
			}
		}
		s.Close()
	}
}

func TestHandlerConcurrent(t *testing.T) {
	r := newRig(t)
	h := New(r.Control, nil)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 20 {
				for _, q := range [][2]string{
					{"GET", "/"},
					{"POST", "/snapshot"},
					{"POST", "/start?config=deep"},
					{"POST", fmt.Sprintf("/stop/%d", i)},
				} {
					w := ask(h, q[0], q[1])
					if w.Code >= 400 && w.Code != 404 && !strings.Contains(w.Body.String(), string(control.VerdictAlreadyRunning)) {
						t.Errorf("%s %s: %d %s", q[0], q[1], w.Code, w.Body)
					}
					if at := w.Header().Get("Location"); q[1] == "/snapshot" && ask(h, "GET", "/"+at).Code != 200 {
						t.Errorf("%s is not there", at)
					}
				}
				for _, t := range r.Running() {
					ask(h, "POST", "/stop/"+t.ID)
				}
			}
		})
	}
	wg.Wait()
	if n := answerOf(t, ask(h, "GET", "/"))["files_total"].(float64); n < 160 {
		t.Errorf("there are %v traces, want 160 and more", n)
	}
}
