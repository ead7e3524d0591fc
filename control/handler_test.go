package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// handlerFake is a control of the tests. Its traces are files in its folder.
type handlerFake struct {
	dir *folder

	mu       sync.Mutex
	asked    []Request
	running  []startedTrace
	deny     error
	config   *Config
	override []string
	stats    any
}

type handlerTrace struct {
	id, name, path string
	mode           Mode
	err            error
}

func (t *handlerTrace) ID() string           { return t.id }
func (t *handlerTrace) Name() string         { return t.name }
func (t *handlerTrace) Mode() Mode           { return t.mode }
func (t *handlerTrace) Path() string         { return t.path }
func (t *handlerTrace) StartTime() time.Time { return folderDay }
func (t *handlerTrace) Err() error           { return t.err }

func (f *handlerFake) Start(_ context.Context, r Request) (startedTrace, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, r)
	if f.deny != nil {
		return nil, f.deny
	}
	name := r.Name
	if name == "" {
		name = "any"
	}
	t := &handlerTrace{id: fmt.Sprint(len(f.asked)), name: name, mode: r.Mode, path: f.dir.path(f.dir.fileName(folderDay, name, r.Manual))}
	if r.Mode == ModeSnapshot {
		return t, os.WriteFile(t.path, []byte("snapshot"), 0o600)
	}
	f.running = append(f.running, t)
	return t, nil
}

func (f *handlerFake) StopTrace(id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, t := range f.running {
		if t.ID() == id {
			f.running = slices.Delete(f.running, i, i+1)
			if f.deny != nil {
				return f.deny
			}
			return os.WriteFile(t.Path(), []byte("stream"), 0o600)
		}
	}
	return fmt.Errorf("stop %s: %w", id, fs.ErrNotExist)
}

func (f *handlerFake) Stats() any { return f.stats }

func (f *handlerFake) Config() *Config { return f.config }

func (f *handlerFake) Running() []startedTrace {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.running)
}

func (f *handlerFake) Override(c *Config, d time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := "none"
	if c != nil {
		id = c.ID
	}
	f.override = append(f.override, id+" "+d.String())
	return f.deny
}

func newHandlerFake(t testing.TB) *handlerFake {
	return &handlerFake{
		dir:   folderOf(t),
		stats: map[string]int{"started": 3},
		config: &Config{ID: "prod", Traces: []TraceConfig{
			{Name: "any", On: []On{{Trigger: TriggerHTTP}, {Trigger: TriggerLog, Key: "<b>*"}}, Every: 90 * time.Second},
			{Name: "deep", Mode: ModeStream, On: []On{{Trigger: TriggerSpan, LongerThan: time.Second, Count: 3, Within: time.Minute}}, PerHour: 4},
		}},
	}
}

func (f *handlerFake) handler(o *HandlerOptions) http.Handler {
	return newHandler(f, func() *folder { return f.dir }, o)
}

// handlerAsk asks as a program of this machine would.
func handlerAsk(h http.Handler, method, target, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	var b io.Reader
	if body != "" {
		b = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, target, b)
	r.RemoteAddr, r.Host = "127.0.0.1:4711", "localhost:8080"
	for _, c := range change {
		c(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func handlerHeader(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Add(name, value) }
}

// handlerAnswer decodes a JSON answer.
func handlerAnswer(t *testing.T, w *httptest.ResponseRecorder) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("the answer is %s %q: %v", w.Header().Get("Content-Type"), w.Body, err)
	}
	return v
}

// TestHandlerMethods asks each path with each method, and that none but those that
// are meant to do anything.
func TestHandlerMethods(t *testing.T) {
	const file = "20261120T212712.021345Z-h-7-0001-c.et"
	for _, c := range []struct {
		path  string
		allow string // "" means that the path is none
		off   string // the same without AllowConfig
	}{
		{"/", "GET, HEAD", "GET, HEAD"},
		{"/snapshot", "POST", "POST"},
		{"/start", "POST", "POST"},
		{"/stop/1", "POST", "POST"},
		{"/config", "DELETE, PUT", ""},
		{"/traces/" + file, "GET, HEAD", "GET, HEAD"},
		{"/snapshot/", "", ""},
		{"/stop", "", ""},
		{"/stop/", "", ""},
		{"/stop/1/2", "", ""},
		{"/traces", "", ""},
		{"/traces/", "", ""},
		{"//", "", ""},
		{"//snapshot", "", ""},
		{"/index.html", "", ""},
		{"/Snapshot", "", ""},
	} {
		for _, on := range []bool{true, false} {
			allow := c.allow
			if !on {
				allow = c.off
			}
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get"} {
				f := newHandlerFake(t)
				folderPut(t, f.dir, folderDay, 1, 5, false)
				h := f.handler(&HandlerOptions{AllowConfig: on, Parse: handlerParse})
				w := handlerAsk(h, method, "/", "", func(r *http.Request) { r.URL.Path = c.path })
				allowed := slices.Contains(strings.Split(allow, ", "), method)
				switch {
				case allow == "" && w.Code != 404:
					t.Errorf("%s %s: %d, want 404", method, c.path, w.Code)
				case allow != "" && !allowed && (w.Code != 405 || w.Header().Get("Allow") != allow):
					t.Errorf("%s %s: %d, Allow %q, want 405 and %q", method, c.path, w.Code, w.Header().Get("Allow"), allow)
				case allowed && (w.Code == 405 || w.Code == 404 && c.path != "/stop/1"):
					t.Errorf("%s %s: %d", method, c.path, w.Code)
				}
				if method != "POST" && len(f.asked) > 0 || method != "PUT" && method != "DELETE" && len(f.override) > 0 {
					t.Errorf("%s %s does %v %v", method, c.path, f.asked, f.override)
				}
				if w.Header().Get("X-Content-Type-Options") != "nosniff" || w.Header().Get("Cache-Control") != "no-store" {
					t.Errorf("%s %s: the header is %v", method, c.path, w.Header())
				}
			}
		}
	}
}

func handlerParse(text []byte) (*Config, error) {
	if string(text) == "nil" {
		return nil, nil
	}
	id, ok := strings.CutPrefix(string(text), "id: ")
	if !ok {
		return nil, errors.New("line 1: there is no id")
	}
	return &Config{ID: strings.TrimSpace(id), Dir: "x"}, nil
}

func TestHandlerSnapshot(t *testing.T) {
	f := newHandlerFake(t)
	h := f.handler(nil)
	for _, c := range []struct {
		query string
		want  Request
	}{
		{"", Request{}},
		{"?window=30s", Request{Window: 30 * time.Second}},
		{"?window=1m30s&name=any&manual=1&reason=a%20%3Cb%3E", Request{Window: 90 * time.Second, Name: "any", Manual: true, Reason: "a <b>"}},
		{"?manual=0", Request{}},
		{"?manual=true", Request{Manual: true}},
		{"?reason=" + strings.Repeat("x", 1024), Request{Reason: strings.Repeat("x", 1024)}},
	} {
		c.want.Trigger, c.want.Key, c.want.Mode = TriggerHTTP, "snapshot", ModeSnapshot
		f.asked = nil
		w := handlerAsk(h, "POST", "/snapshot"+c.query, "")
		if w.Code != 201 || len(f.asked) != 1 || fmt.Sprint(f.asked[0]) != fmt.Sprint(c.want) {
			t.Errorf("%s: %d, asked for %v, want %v", c.query, w.Code, f.asked, c.want)
			continue
		}
		v := handlerAnswer(t, w)
		if v["id"] == "" || w.Header().Get("Location") != "traces/"+v["file"].(string) || v["href"] != w.Header().Get("Location") {
			t.Errorf("%s: the answer is %v, and it is at %q", c.query, v, w.Header().Get("Location"))
		}
		if _, err := os.Stat(f.dir.path(v["file"].(string))); err != nil {
			t.Error(err)
		}
	}
}

func TestHandlerVerdicts(t *testing.T) {
	f := newHandlerFake(t)
	h := f.handler(&HandlerOptions{AllowConfig: true, Parse: handlerParse})
	for _, c := range []struct {
		err   error
		want  int
		retry string
	}{
		{&DeniedError{Verdict: NoConfig}, 409, ""},
		{&DeniedError{Verdict: AlreadyRunning}, 409, ""},
		{&DeniedError{Verdict: NoSlot}, 409, ""},
		{&DeniedError{Verdict: NoProviders}, 409, ""},
		{&DeniedError{Verdict: ConditionUnmet}, 409, ""},
		{&DeniedError{Verdict: NotEnough}, 409, ""},
		{&DeniedError{Verdict: SampledOut}, 409, ""},
		{&DeniedError{Verdict: Coalesced}, 409, ""},
		{&DeniedError{Verdict: RateLimited}, 429, "60"},
		{&DeniedError{Verdict: RateLimited, Trace: "any"}, 429, "90"},
		{&DeniedError{Verdict: RateLimited, Trace: "deep"}, 429, "900"},
		{fmt.Errorf("start: %w", &DeniedError{Verdict: RateLimited, Trace: "any"}), 429, "90"},
		{&DeniedError{Verdict: Closed}, 503, ""},
		{&DeniedError{Verdict: Failed, Err: errors.New("the disk is full")}, 500, ""},
		{errors.New("the disk is full"), 500, ""},
	} {
		f.deny = c.err
		for _, q := range [][2]string{{"POST", "/snapshot"}, {"POST", "/start?config=deep"}, {"POST", "/stop/1"}, {"DELETE", "/config"}} {
			f.running = []startedTrace{&handlerTrace{id: "1", path: "x"}}
			w := handlerAsk(h, q[0], q[1], "")
			v := handlerAnswer(t, w)
			if w.Code != c.want || w.Header().Get("Retry-After") != c.retry || w.Header().Get("Location") != "" {
				t.Errorf("%s %s with %v: %d, Retry-After %q, want %d and %q", q[0], q[1], c.err, w.Code, w.Header().Get("Retry-After"), c.want, c.retry)
			}
			verdict := ""
			if d, ok := errors.AsType[*DeniedError](c.err); ok {
				verdict = string(d.Verdict)
			}
			if got, _ := v["verdict"].(string); got != verdict || v["error"] != c.err.Error() {
				t.Errorf("%s %s with %v answers %v", q[0], q[1], c.err, v)
			}
		}
	}
	f.deny, f.config = &DeniedError{Verdict: RateLimited, Trace: "any"}, nil
	if w := handlerAsk(h, "POST", "/snapshot", ""); w.Code != 429 || w.Header().Get("Retry-After") != "60" {
		t.Errorf("without a configuration: %d %v", w.Code, w.Header())
	}
}

// handlerEnding is a trace that ends a while after it was stopped.
type handlerEnding struct {
	handlerTrace

	done    chan struct{}
	verdict Verdict
}

func (t *handlerEnding) Done() <-chan struct{} { return t.done }
func (t *handlerEnding) Verdict() Verdict      { return t.verdict }

func TestHandlerStopWaits(t *testing.T) {
	for verdict, want := range map[Verdict]int{Started: 200, ConditionUnmet: 409, Failed: 500} {
		synctest.Test(t, func(t *testing.T) {
			f := newHandlerFake(t)
			e := &handlerEnding{handlerTrace{id: "1", name: "deep", path: f.dir.path("x.et"), err: errors.New("no cpu profile")}, make(chan struct{}), verdict}
			f.running = []startedTrace{e}
			var w *httptest.ResponseRecorder
			go func() { w = handlerAsk(f.handler(nil), "POST", "/stop/1", "") }()
			synctest.Wait()
			if w != nil {
				t.Fatal("the answer comes before the end")
			}
			close(e.done)
			synctest.Wait()
			v := handlerAnswer(t, w)
			if verdict == Started {
				verdict = ""
			}
			if got, _ := v["verdict"].(string); w.Code != want || got != string(verdict) || !strings.Contains(v["error"].(string), "no cpu profile") {
				t.Errorf("%q: %d %v, want %d", verdict, w.Code, v, want)
			}
		})
	}
	f := newHandlerFake(t)
	f.running = []startedTrace{&handlerEnding{handlerTrace: handlerTrace{id: "1", path: f.dir.path("x.et")}, done: make(chan struct{})}}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := handlerAsk(f.handler(nil), "POST", "/stop/1", "", func(r *http.Request) { *r = *r.WithContext(ctx) })
	if w.Code != 500 {
		t.Errorf("who asked is gone: %d", w.Code)
	}
}

// TestHandlerMounted goes through a server from one reference to the next, under
// several prefixes.
func TestHandlerMounted(t *testing.T) {
	for _, mount := range []string{"", "/debug/entrace", "/a%20b"} {
		f := newHandlerFake(t)
		mux := http.NewServeMux()
		plain := strings.ReplaceAll(mount, "%20", " ")
		h := http.StripPrefix(plain, f.handler(nil))
		mux.Handle(mount+"/", h)
		if mount == "/a%20b" {
			mux.Handle(mount, h) // so that the mount is asked for without a redirect
		}
		s := httptest.NewServer(mux)
		ask := func(method, from, target string) (*http.Response, string) {
			t.Helper()
			r, err := http.NewRequestWithContext(t.Context(), method, from, nil)
			folderMust(t, err)
			r.URL, err = r.URL.Parse(target)
			folderMust(t, err)
			resp, err := s.Client().Do(r)
			folderMust(t, err)
			b, err := io.ReadAll(resp.Body)
			folderMust(t, errors.Join(err, resp.Body.Close()))
			return resp, string(b)
		}
		base := s.URL + mount + "/"
		resp, _ := ask("POST", base, "snapshot?name=any")
		at, err := resp.Location()
		folderMust(t, err)
		if resp, text := ask("GET", base, at.String()); resp.StatusCode != http.StatusOK || text != "snapshot" {
			t.Errorf("%q: the snapshot at %s: %d %q", mount, at, resp.StatusCode, text)
		}
		resp, text := ask("POST", base, "start?config=deep&for=20s&manual=1")
		at, err = resp.Location()
		folderMust(t, err)
		var v runningView
		folderMust(t, json.Unmarshal([]byte(text), &v))
		if got := f.asked[1]; resp.StatusCode != http.StatusCreated || got.Timeout != 20*time.Second || got.Name != "deep" || got.Mode != ModeStream || got.Key != "start" || !got.Manual {
			t.Errorf("%q: start: %d, asked for %+v", mount, resp.StatusCode, got)
		}
		if resp, _ := ask("GET", base, at.String()); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%q: the stream that runs: %d, want 404", mount, resp.StatusCode)
		}
		resp, text = ask("POST", base, "stop/"+v.ID)
		v = runningView{}
		folderMust(t, json.Unmarshal([]byte(text), &v))
		if resp.StatusCode != http.StatusOK || v.File == "" || v.Config != "deep" {
			t.Errorf("%q: stop: %d %s", mount, resp.StatusCode, text)
		}
		if resp, text := ask("GET", resp.Request.URL.String(), v.Href); resp.StatusCode != http.StatusOK || text != "stream" || resp.Request.URL.String() != at.String() {
			t.Errorf("%q: the stream at %s: %d %q", mount, resp.Request.URL, resp.StatusCode, text)
		}
		if resp, _ := ask("POST", base, "stop/"+v.ID); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%q: a second stop: %d, want 404", mount, resp.StatusCode)
		}
		for _, from := range []string{base, s.URL + mount} {
			resp, text := ask("GET", from, "")
			var index indexView
			folderMust(t, json.Unmarshal([]byte(text), &index))
			if len(index.Files) != 2 {
				t.Fatalf("%q: the list has %v", from, index.Files)
			}
			for _, file := range index.Files {
				if resp, _ := ask("GET", resp.Request.URL.String(), file.Href); resp.StatusCode != http.StatusOK {
					t.Errorf("%q: %s: %d", from, resp.Request.URL, resp.StatusCode)
				}
			}
		}
		s.Close()
	}
}

func TestHandlerConfig(t *testing.T) {
	f := newHandlerFake(t)
	h := f.handler(&HandlerOptions{AllowConfig: true, Parse: handlerParse})
	for _, c := range []struct {
		query, text string
		want        int
		says        string // of the answer
		override    string
	}{
		{"", "id: a", 200, "a", "a 10m0s"},
		{"?for=20s", "id: b", 200, "20s", "b 20s"},
		{"?for=24h", "id: c", 200, "24h0m0s", "c 24h0m0s"},
		{"?for=24h0m1s", "id: c", 400, "24h", ""},
		{"", "id: " + strings.Repeat(" ", maxConfigText-5) + "d", 200, "d", "d 10m0s"},
		{"", "id: " + strings.Repeat(" ", maxConfigText-4) + "d", 413, "1048576", ""},
		{"", "nonsense", 400, "line 1: there is no id", ""},
		{"", "", 400, "line 1", ""},
		{"", "nil", 400, "empty", ""},
		{"", "id: ", 400, "id: must not be empty", ""}, // it does not validate
	} {
		f.override = nil
		w := handlerAsk(h, "PUT", "/config"+c.query, c.text)
		if got := strings.Join(f.override, ","); w.Code != c.want || !strings.Contains(w.Body.String(), c.says) || got != c.override {
			t.Errorf("PUT %s %.20q: %d %.200s, override %q, want %d that says %q, and %q", c.query, c.text, w.Code, w.Body, got, c.want, c.says, c.override)
		}
	}
	f.override = nil
	if w := handlerAsk(h, "DELETE", "/config", ""); w.Code != 200 || !slices.Equal(f.override, []string{"none 0s"}) || handlerAnswer(t, w)["config"] != "prod" {
		t.Errorf("DELETE: %d %s, override %v", w.Code, w.Body, f.override)
	}
	f.deny = &FieldError{"dir", errors.New("cannot change")}
	if w := handlerAsk(h, "PUT", "/config", "id: a"); w.Code != 400 || !strings.Contains(w.Body.String(), "dir: cannot change") {
		t.Errorf("a configuration that is refused: %d %s", w.Code, w.Body)
	}
	if w := handlerAsk(h, "PUT", "/config", "", func(r *http.Request) { r.Body = nil }); w.Code != 400 {
		t.Errorf("no body: %d", w.Code)
	}
	if w := handlerAsk(f.handler(&HandlerOptions{AllowConfig: true}), "PUT", "/config", "id: a"); w.Code != 500 || !strings.Contains(w.Body.String(), "Parse") {
		t.Errorf("without Parse: %d %s", w.Code, w.Body)
	}
	f.override = nil
	for _, method := range []string{"PUT", "DELETE"} {
		if w := handlerAsk(f.handler(&HandlerOptions{Parse: handlerParse}), method, "/config", "id: a"); w.Code != 404 || len(f.override) != 0 {
			t.Errorf("%s without AllowConfig: %d, override %v", method, w.Code, f.override)
		}
	}
}

func TestHandlerConcurrent(t *testing.T) {
	f := newHandlerFake(t)
	h := f.handler(&HandlerOptions{AllowConfig: true, Parse: handlerParse})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 20 {
				for _, q := range [][3]string{
					{"GET", "/", ""},
					{"POST", "/snapshot", ""},
					{"POST", "/start?config=deep", ""},
					{"POST", fmt.Sprintf("/stop/%d", i), ""},
					{"PUT", "/config", "id: a"},
					{"DELETE", "/config", ""},
				} {
					w := handlerAsk(h, q[0], q[1], q[2])
					if w.Code >= 400 && w.Code != 404 {
						t.Errorf("%s %s: %d %s", q[0], q[1], w.Code, w.Body)
					}
					if at := w.Header().Get("Location"); q[1] == "/snapshot" && handlerAsk(h, "GET", "/"+at, "").Code != 200 {
						t.Errorf("%s is not there", at)
					}
				}
			}
		})
	}
	wg.Wait()
	if names := folderNames(t, f.dir); len(names) < 160 {
		t.Errorf("there are %d traces, want 160 and more", len(names))
	}
}

// TestHandlerViewer: the page that shows traces is named, if there is one.
func TestHandlerViewer(t *testing.T) {
	f := newHandlerFake(t)
	if w := handlerAsk(f.handler(nil), "GET", "/", ""); strings.Contains(w.Body.String(), `"viewer"`) {
		t.Errorf("without a viewer: %s", w.Body)
	}
	if w := handlerAsk(f.handler(&HandlerOptions{Viewer: "/debug/trace/"}), "GET", "/", ""); !strings.Contains(w.Body.String(), `"viewer": "/debug/trace/"`) && !strings.Contains(w.Body.String(), `"viewer":"/debug/trace/"`) {
		t.Errorf("with a viewer: %s", w.Body)
	}
}
