// Package httpapi has an HTTP handler that requests traces of a [control.Control], and lists and serves
// them:
//
//	GET   /               the state and the configuration, as JSON
//	POST  /snapshot       ?window=30s &name=X &manual=1 &reason=TEXT
//	POST  /start          ?config=X &for=20s &manual=1 &reason=TEXT
//	POST  /stop/ID
//	GET   /traces/FILE
//
// References in responses are relative, so that the handler can be mounted at any path. Responses are JSON,
// except for the files; an error has a member "error".
package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/control/internal/traces"
)

// Options configure the access to a handler. By default, only requests from the same machine are served.
type Options struct {
	// Token, if set, must be in each request: "Authorization: Bearer TOKEN". It must have at least
	// 16 bytes; with a shorter Token all requests are refused.
	//
	// Without a Token, only requests from this machine to one of its loopback addresses are served, except requests
	// that a proxy has marked as forwarded. Behind a local proxy that does not mark requests, all requests look
	// local: set a Token in this case.
	Token string
	// Viewer, if set, is the URL of a page that shows traces, for example a page of package viewer. The
	// response to GET / has it.
	Viewer string
}

const (
	minToken     = 16
	maxReason    = 1 << 10
	maxListed    = 1000
	defaultRetry = time.Minute
	tracesDir    = "traces/"
)

// A handler serves a control.
type handler struct {
	ctl    *control.Control
	folder *traces.Folder // nil: it could not be opened
	o      Options
	token  [sha256.Size]byte
}

// New returns a handler for c. The handler expects paths relative to its mount point:
//
//	mux.Handle("/debug/entrace/", http.StripPrefix("/debug/entrace", httpapi.New(ctl, nil)))
//
// A nil o means defaults. If c is nil, the handler responds with 404 to all requests.
func New(c *control.Control, o *Options) http.Handler {
	if c == nil {
		return http.NotFoundHandler()
	}
	h := &handler{ctl: c}
	if o != nil {
		h.o = *o
	}
	h.folder, _ = traces.Open(c.Dir())
	h.token = sha256.Sum256([]byte(h.o.Token))
	return h
}

// A statusError is an error with an HTTP status code.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return e.text }

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	err := h.admit(w, r)
	if err == nil {
		err = h.route(w, r)
	}
	if err != nil {
		fail(w, err)
	}
}

// route calls the function for the path and the method of a request. HEAD is handled like GET.
func (h *handler) route(w http.ResponseWriter, r *http.Request) error {
	at := strings.TrimPrefix(r.URL.Path, "/")
	file, isFile := strings.CutPrefix(at, tracesDir)
	id, isStop := strings.CutPrefix(at, "stop/")
	const get, post = "GET, HEAD", "POST"
	var allow string
	var fn func(http.ResponseWriter, *http.Request) error
	switch {
	case at == "":
		allow, fn = get, h.index
	case at == "snapshot":
		allow, fn = post, h.snapshot
	case at == "start":
		allow, fn = post, h.start
	case isStop && id != "" && !strings.Contains(id, "/"):
		allow, fn = post, func(w http.ResponseWriter, r *http.Request) error { return h.stop(w, r, id) }
	case isFile && file != "":
		allow, fn = get, func(w http.ResponseWriter, r *http.Request) error { return h.file(w, r, file) }
	default:
		return &statusError{http.StatusNotFound, "not found"}
	}
	if !slices.Contains(strings.Split(allow, ", "), r.Method) {
		w.Header().Set("Allow", allow)
		return &statusError{http.StatusMethodNotAllowed, "method not allowed: use " + allow}
	}
	return fn(w, r)
}

func (h *handler) snapshot(w http.ResponseWriter, r *http.Request) error {
	p := paramsOf(r, "window", "name", "manual", "reason").noBody(r)
	return h.begin(w, r, p, control.Request{
		Trigger: control.TriggerHTTP, Key: "snapshot", Mode: control.ModeSnapshot,
		Window: p.duration("window"), Name: p.name("name"), Manual: p.bool("manual"), Reason: p.reason(),
	})
}

func (h *handler) start(w http.ResponseWriter, r *http.Request) error {
	p := paramsOf(r, "config", "for", "manual", "reason").noBody(r)
	q := control.Request{
		Trigger: control.TriggerHTTP, Key: "start", Mode: control.ModeStream,
		Timeout: p.duration("for"), Name: p.name("config"), Manual: p.bool("manual"), Reason: p.reason(),
	}
	if q.Name == "" {
		p.bad("config", "is missing: name a trace of the configuration")
	}
	return h.begin(w, r, p, q)
}

func (h *handler) begin(w http.ResponseWriter, r *http.Request, p *params, q control.Request) error {
	if err := p.check(); err != nil {
		return err
	}
	t, err := h.ctl.Start(r.Context(), q)
	if err != nil {
		return h.denied(w, err)
	}
	v := traceView(t, "")
	if v.Href != "" {
		w.Header().Set("Location", v.Href) // relative to the mount point, because snapshot and start are directly below it
	}
	return answer(w, http.StatusCreated, v)
}

// stop ends a stream, and responds when its file is finished.
func (h *handler) stop(w http.ResponseWriter, r *http.Request, id string) error {
	if err := paramsOf(r).noBody(r).check(); err != nil {
		return err
	}
	running := h.ctl.Running()
	i := slices.IndexFunc(running, func(t *control.Trace) bool { return t.ID == id })
	if i < 0 || !running[i].Stop() {
		return &statusError{http.StatusNotFound, "no stream of that id is running"}
	}
	t := running[i]
	select {
	case <-t.Done():
	case <-r.Context().Done():
		return context.Cause(r.Context())
	}
	if v := t.Verdict(); v != control.VerdictStarted && v != control.VerdictUnfinished {
		return &control.DeniedError{Request: control.Request{Trigger: control.TriggerHTTP, Key: "stop"}, Verdict: v, Trace: t.Name, Err: t.Err()}
	}
	return answer(w, http.StatusOK, traceView(t, "../")) // relative to the path stop/ID
}

// denied returns err. If err is a denial because of a rate limit, it also sets the header Retry-After.
func (h *handler) denied(w http.ResponseWriter, err error) error {
	d, ok := errors.AsType[*control.DeniedError](err)
	if !ok || d.Verdict != control.VerdictRateLimited {
		return err
	}
	wait := defaultRetry
	for _, t := range h.ctl.Config().Traces {
		switch {
		case t.Name != d.Trace:
		case t.Every > 0:
			wait = t.Every
		case t.PerHour > 0:
			wait = time.Hour / time.Duration(t.PerHour)
		}
	}
	seconds := int64((wait + time.Second - 1) / time.Second)
	w.Header().Set("Retry-After", strconv.FormatInt(max(seconds, 1), 10))
	return err
}

func (h *handler) file(w http.ResponseWriter, r *http.Request, name string) error {
	if err := paramsOf(r).check(); err != nil {
		return err
	}
	missing := &statusError{http.StatusNotFound, "no such trace"}
	if h.folder == nil {
		return missing
	}
	file, fi, err := h.folder.OpenFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return missing
	}
	if err != nil {
		return err
	}
	defer file.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	// The name has no character that needs an escape.
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	http.ServeContent(w, r, "", fi.ModTime(), file)
	return nil
}

// fail writes a response with an error.
func fail(w http.ResponseWriter, err error) {
	v := struct {
		Error   string          `json:"error"`
		Verdict control.Verdict `json:"verdict,omitempty"`
		Trace   string          `json:"trace,omitempty"`
	}{Error: err.Error()}
	status := http.StatusInternalServerError
	if d, ok := errors.AsType[*control.DeniedError](err); ok {
		v.Verdict, v.Trace = d.Verdict, d.Trace
		switch d.Verdict {
		case control.VerdictRateLimited:
			status = http.StatusTooManyRequests
		case control.VerdictClosed:
			status = http.StatusServiceUnavailable
		case control.VerdictFailed:
		default:
			status = http.StatusConflict
		}
	} else if e, ok := errors.AsType[*statusError](err); ok {
		status = e.status
	}
	_ = answer(w, status, v) // strings can always be encoded
}

// answer writes a response with v as JSON. If v cannot be encoded, it returns an error and writes nothing.
func answer(w http.ResponseWriter, status int, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // on an error, the client is gone
	return nil
}

func (h *handler) index(w http.ResponseWriter, r *http.Request) error {
	if err := paramsOf(r).check(); err != nil {
		return err
	}
	base := ""
	if r.URL.Path == "" {
		// Without a slash at the end, the last element of the mount point does not count for relative
		// references.
		if u, err := url.ParseRequestURI(r.RequestURI); err == nil && !strings.HasSuffix(u.Path, "/") {
			base = (&url.URL{Path: path.Base(u.Path)}).EscapedPath() + "/"
		}
	}
	v := indexView{Viewer: h.o.Viewer, Config: viewConfig(h.ctl.Config()), Stats: h.ctl.Stats(), Running: []*runningView{}, Files: []fileView{}}
	for _, t := range h.ctl.Running() {
		v.Running = append(v.Running, traceView(t, base))
	}
	if h.folder != nil {
		files, err := h.folder.List()
		if err != nil {
			v.Error = err.Error()
		}
		v.Total = len(files)
		for _, f := range slices.Backward(files[max(0, len(files)-maxListed):]) {
			v.Files = append(v.Files, fileView{f, base + tracesDir + f.Name})
		}
	}
	return answer(w, http.StatusOK, v)
}
