package control

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// HandlerOptions say who may use the handler of a control, and for what. The zero
// value is for requests from the same machine alone.
type HandlerOptions struct {
	// Token, if set, is what requests need: "Authorization: Bearer TOKEN". It has at
	// least 16 bytes; with a shorter one all requests are refused.
	//
	// Without one only requests from this machine are served, to an address of this
	// machine, and none that says that a proxy has passed it on. A proxy here that
	// does not say so makes all requests look like that: behind one, set a Token.
	Token string
	// Viewer, if set, is the URL of a page that shows the traces, such as one of package
	// viewer. GET / has it.
	Viewer string
	// AllowConfig lets PUT /config replace the configuration for a while.
	AllowConfig bool
	// Parse reads what PUT /config brings, such as filesource.Parse. It must be
	// safe for concurrent use, and text is its own.
	Parse func(text []byte) (*Config, error)
}

// handled is what the handler needs of a control.
type handled interface {
	// Start returns a [*DeniedError] if there is no trace. Of a snapshot it returns
	// when the file is there.
	Start(ctx context.Context, r Request) (startedTrace, error)
	// StopTrace ends a stream and finishes its file. fs.ErrNotExist: there is none of
	// that id.
	StopTrace(id string) error
	Stats() any      // for encoding/json
	Config() *Config // nil if there is none
	Running() []startedTrace
	// Override puts a configuration in force for that long; nil ends that.
	Override(c *Config, d time.Duration) error
}

// A startedTrace is a trace as the handler shows it.
type startedTrace interface {
	ID() string
	Name() string // of the trace in the configuration
	Mode() Mode
	Path() string // of the file, that of a stream when it is finished
	StartTime() time.Time
	Err() error
}

// An endingTrace is a startedTrace that tells how it has ended.
type endingTrace interface {
	Done() <-chan struct{}
	Verdict() Verdict // Started, or why it was not kept
}

const (
	minToken         = 16
	maxReason        = 1 << 10
	maxConfigText    = 1 << 20
	maxListed        = 1000
	defaultOverride  = 10 * time.Minute
	maxOverride      = 24 * time.Hour
	defaultRetry     = time.Minute
	handlerTracesDir = "traces/"
)

// A handler serves a control over HTTP:
//
//	GET    /               what there is, as JSON
//	POST   /snapshot       ?window=30s &name=X &manual=1 &reason=TEXT
//	POST   /start          ?config=X &for=20s &manual=1 &reason=TEXT
//	POST   /stop/ID
//	GET    /traces/FILE
//	PUT    /config         ?for=10m, with the text of the configuration
//	DELETE /config         ends that
//
// References in its answers are relative, so that it does not matter where it is
// mounted. Answers are JSON but for the files; errors have a member "error".
type handler struct {
	c      handled
	folder func() *folder // nil: there is none yet
	o      HandlerOptions
	token  [sha256.Size]byte
}

// newHandler returns the handler of a control. It is to be given paths that begin
// behind the mount, as [http.StripPrefix] does it. A nil o means defaults.
func newHandler(c handled, dir func() *folder, o *HandlerOptions) http.Handler {
	h := &handler{c: c, folder: dir}
	if o != nil {
		h.o = *o
	}
	h.token = sha256.Sum256([]byte(h.o.Token))
	return h
}

// A handlerError is an error with its status.
type handlerError struct {
	status int
	text   string
}

func (e *handlerError) Error() string { return e.text }

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if err := h.admit(w, r); err != nil {
		handlerFail(w, err)
		return
	}
	if err := h.route(w, r); err != nil {
		handlerFail(w, err)
	}
}

// route finds what a request is for.
func (h *handler) route(w http.ResponseWriter, r *http.Request) error {
	at := strings.TrimPrefix(r.URL.Path, "/")
	file, isFile := strings.CutPrefix(at, handlerTracesDir)
	id, isStop := strings.CutPrefix(at, "stop/")
	switch {
	case at == "":
		return handlerDo(w, r, methods{"GET": h.index})
	case at == "snapshot":
		return handlerDo(w, r, methods{"POST": h.snapshot})
	case at == "start":
		return handlerDo(w, r, methods{"POST": h.start})
	case at == "config" && h.o.AllowConfig:
		return handlerDo(w, r, methods{"PUT": h.setConfig, "DELETE": h.endConfig})
	case isStop && id != "" && !strings.Contains(id, "/"):
		return handlerDo(w, r, methods{"POST": func(w http.ResponseWriter, r *http.Request) error { return h.stop(w, r, id) }})
	case isFile && file != "":
		return handlerDo(w, r, methods{"GET": func(w http.ResponseWriter, r *http.Request) error { return h.file(w, r, file) }})
	}
	return &handlerError{http.StatusNotFound, "there is nothing here"}
}

type methods map[string]func(http.ResponseWriter, *http.Request) error

// handlerDo calls what a method does; HEAD is GET, without what it writes.
func handlerDo(w http.ResponseWriter, r *http.Request, m methods) error {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if do := m[method]; do != nil {
		return do(w, r)
	}
	var allow []string
	for name := range m {
		allow = append(allow, name)
		if name == http.MethodGet {
			allow = append(allow, http.MethodHead)
		}
	}
	slices.Sort(allow)
	w.Header().Set("Allow", strings.Join(allow, ", "))
	return &handlerError{http.StatusMethodNotAllowed, "the method is not one of " + strings.Join(allow, ", ")}
}

func (h *handler) snapshot(w http.ResponseWriter, r *http.Request) error {
	p := handlerParams(r, "window", "name", "manual", "reason").noBody(r)
	q := Request{
		Trigger: TriggerHTTP, Key: "snapshot", Mode: ModeSnapshot,
		Window: p.duration("window", 0, 0), Name: p.name("name"), Manual: p.bool("manual"), Reason: p.reason(),
	}
	return h.begin(w, r, p, q)
}

func (h *handler) start(w http.ResponseWriter, r *http.Request) error {
	p := handlerParams(r, "config", "for", "manual", "reason").noBody(r)
	q := Request{
		Trigger: TriggerHTTP, Key: "start", Mode: ModeStream,
		Timeout: p.duration("for", 0, 0), Name: p.name("config"), Manual: p.bool("manual"), Reason: p.reason(),
	}
	if q.Name == "" {
		p.bad("config", "is missing: it names the trace of the configuration")
	}
	return h.begin(w, r, p, q)
}

func (h *handler) begin(w http.ResponseWriter, r *http.Request, p *params, q Request) error {
	if err := p.check(); err != nil {
		return err
	}
	t, err := h.c.Start(r.Context(), q)
	if err != nil {
		return h.denied(w, err)
	}
	v := traceView(t, "")
	if v.Href != "" {
		w.Header().Set("Location", v.Href) // beside snapshot and start
	}
	return handlerJSON(w, http.StatusCreated, v)
}

func (h *handler) stop(w http.ResponseWriter, r *http.Request, id string) error {
	if err := handlerParams(r).noBody(r).check(); err != nil {
		return err
	}
	v := &runningView{ID: id}
	running := h.c.Running() // it is not in there afterwards
	i := slices.IndexFunc(running, func(t startedTrace) bool { return t.ID() == id })
	err := h.c.StopTrace(id)
	if errors.Is(err, fs.ErrNotExist) {
		return &handlerError{http.StatusNotFound, "no stream of that id is running"}
	}
	if err != nil {
		return h.denied(w, err)
	}
	if i >= 0 {
		if err := handlerEnd(r.Context(), running[i]); err != nil {
			return err
		}
		v = traceView(running[i], "../") // from below stop/
	}
	return handlerJSON(w, http.StatusOK, v)
}

// handlerEnd waits for the end of a trace that was stopped, and returns why it was
// not kept.
func handlerEnd(ctx context.Context, t startedTrace) error {
	e, ok := t.(endingTrace)
	if !ok {
		return nil
	}
	select {
	case <-e.Done():
	case <-ctx.Done():
		return ctx.Err()
	}
	if v := e.Verdict(); v != Started && v != Unfinished {
		return &DeniedError{Request: Request{Trigger: TriggerHTTP, Key: "stop"}, Verdict: v, Trace: t.Name(), Err: t.Err()}
	}
	return nil
}

// denied adds to the answer when to ask again.
func (h *handler) denied(w http.ResponseWriter, err error) error {
	d, ok := errors.AsType[*DeniedError](err)
	if !ok || d.Verdict != RateLimited {
		return err
	}
	wait := defaultRetry
	if c := h.c.Config(); c != nil {
		if i := c.trace(d.Trace); i >= 0 && c.Traces[i].Every > 0 {
			wait = c.Traces[i].Every
		} else if i >= 0 && c.Traces[i].PerHour > 0 {
			wait = time.Hour / time.Duration(c.Traces[i].PerHour)
		}
	}
	seconds := int64((wait + time.Second - 1) / time.Second)
	w.Header().Set("Retry-After", strconv.FormatInt(max(seconds, 1), 10))
	return err
}

func (h *handler) file(w http.ResponseWriter, r *http.Request, name string) error {
	if err := handlerParams(r).check(); err != nil {
		return err
	}
	missing := &handlerError{http.StatusNotFound, "there is no such trace"}
	dir := h.folder()
	if dir == nil {
		return missing
	}
	file, fi, err := dir.open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return missing
	}
	if err != nil {
		return err
	}
	defer file.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`) // it has nothing to escape
	http.ServeContent(w, r, "", fi.ModTime(), file)
	return nil
}

func (h *handler) setConfig(w http.ResponseWriter, r *http.Request) error {
	p := handlerParams(r, "for")
	d := p.duration("for", defaultOverride, maxOverride)
	if err := p.check(); err != nil {
		return err
	}
	if h.o.Parse == nil {
		return errors.New("the handler is not set up: HandlerOptions.Parse is not set")
	}
	var body io.ReadCloser = http.NoBody
	if r.Body != nil {
		body = http.MaxBytesReader(w, r.Body, maxConfigText)
	}
	text, err := io.ReadAll(body)
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return &handlerError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the configuration is longer than %d bytes", maxConfigText)}
	}
	if err != nil {
		return &handlerError{http.StatusBadRequest, "read the configuration: " + err.Error()}
	}
	c, err := h.o.Parse(text)
	if err == nil && c == nil {
		err = errors.New("the configuration is empty")
	}
	if err == nil {
		err = c.Validate()
	}
	if err != nil {
		return &handlerError{http.StatusBadRequest, err.Error()}
	}
	if err := h.c.Override(c, d); err != nil {
		if _, ok := errors.AsType[*FieldError](err); ok {
			return &handlerError{http.StatusBadRequest, err.Error()}
		}
		return h.denied(w, err)
	}
	return handlerJSON(w, http.StatusOK, map[string]string{"config": c.ID, "for": d.String()})
}

func (h *handler) endConfig(w http.ResponseWriter, r *http.Request) error {
	if err := handlerParams(r).noBody(r).check(); err != nil {
		return err
	}
	if err := h.c.Override(nil, 0); err != nil {
		return h.denied(w, err)
	}
	id := ""
	if c := h.c.Config(); c != nil {
		id = c.ID
	}
	return handlerJSON(w, http.StatusOK, map[string]string{"config": id})
}

// handlerFail answers with an error.
func handlerFail(w http.ResponseWriter, err error) {
	v := struct {
		Error   string  `json:"error"`
		Verdict Verdict `json:"verdict,omitempty"`
		Trace   string  `json:"trace,omitempty"`
	}{Error: err.Error()}
	status := http.StatusInternalServerError
	if d, ok := errors.AsType[*DeniedError](err); ok {
		v.Verdict, v.Trace = d.Verdict, d.Trace
		switch d.Verdict {
		case RateLimited:
			status = http.StatusTooManyRequests
		case Closed:
			status = http.StatusServiceUnavailable
		case Failed:
		default:
			status = http.StatusConflict
		}
	} else if e, ok := errors.AsType[*handlerError](err); ok {
		status = e.status
	}
	_ = handlerJSON(w, status, v) // it is made of strings
}

// handlerJSON answers with v. Nothing is written when that cannot be encoded.
func handlerJSON(w http.ResponseWriter, status int, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // who asked may be gone
	return nil
}

func (h *handler) index(w http.ResponseWriter, r *http.Request) error {
	if err := handlerParams(r).check(); err != nil {
		return err
	}
	base := ""
	if r.URL.Path == "" {
		// The mount was asked for without its last slash, so that references begin
		// beside it.
		if u, err := url.ParseRequestURI(r.RequestURI); err == nil && !strings.HasSuffix(u.Path, "/") {
			base = (&url.URL{Path: path.Base(u.Path)}).EscapedPath() + "/"
		}
	}
	v := indexView{Viewer: h.o.Viewer, Stats: h.c.Stats(), Running: []*runningView{}, Files: []fileView{}}
	if c := h.c.Config(); c != nil {
		v.Config = viewConfig(c)
	}
	for _, t := range h.c.Running() {
		v.Running = append(v.Running, traceView(t, base))
	}
	if dir := h.folder(); dir != nil {
		files, err := dir.list()
		if err != nil {
			v.Error = err.Error()
		}
		v.Total = len(files)
		for i := len(files) - 1; i >= max(0, len(files)-maxListed); i-- {
			f := &files[i]
			v.Files = append(v.Files, fileView{f.Name, f.Size, f.Time, f.Manual, f.Config, base + handlerTracesDir + f.Name})
		}
	}
	return handlerJSON(w, http.StatusOK, v)
}
