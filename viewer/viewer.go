package viewer

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// Options change how a [Handler] works.
type Options struct {
	// Authorize reports whether a request may see the trace. By default every request may see it.
	Authorize func(r *http.Request) bool
	// Hosts are the accepted values of the header Host of a request: names of the server, with their ports. By
	// default every value is accepted, which is safe only behind a server that checks the header.
	Hosts []string
	// Base is the path below which the handler is mounted, such as "/debug/trace".
	Base string
	// Names returns the name under which the page shows a file of the view. The default is the name of the
	// file itself.
	Names func(file int) string
	// Notices returns messages for people about the files, for example that a file is damaged.
	Notices func() []string
	// States returns the state of each file of a view, and a short text for all of them. Both are
	// empty if the states are not known.
	States func(v *view.View) (all string, files []State)
	// Editor is the URL that opens a source file. It contains {path} and {line}. If Editor is empty, the page has no
	// links to source files.
	Editor string
	// Follow makes the page show entries that are written to the files while it is open.
	Follow bool
	// Waiting is the text of the page while there is no view, such as "waiting for app.et".
	Waiting string
	// Runs are recordings from which the user can choose on the page while there is no view. Choose is called with
	// the name of the chosen recording, and the name of a recording to compare it with, or "".
	Runs   []Run
	Choose func(run, against string)
	// Reopen, if set, checks whether the names of the files now refer to other files. If they do, Reopen returns
	// a view of the new files, and the page then shows this view. From then on, Names and Notices must describe
	// the new files. If the files are the same, Reopen returns nil. The handler calls Reopen once a second while
	// a page is open, from one goroutine at a time.
	Reopen func(ctx context.Context) (*view.View, error)
	// Correct, if set, returns a view of the same files in which clocks that seem to be wrong are corrected. The page
	// then has a button to show this view. Correct cannot be combined with Follow.
	Correct func(ctx context.Context) (*view.View, error)
	// Released, if set, is called some time after the last request, when the handler has dropped the results of
	// requests, such as columns of attributes. If the program does nothing else, it can then return memory to the
	// system.
	Released func()
	// Against, if set, is another trace. The page compares the view with it. AgainstName is the name of that
	// trace, and AgainstArguments are the flags with which 'entrace view' opens it.
	Against          *view.View
	AgainstName      string
	AgainstArguments []string
	// Formats are the formats in which the page can save rows. Save writes rows of the view v to w, together with
	// the rows above them and their links. The argument format is the Name of one of Formats.
	Formats []Format
	Save    func(ctx context.Context, w io.Writer, v *view.View, rows view.Set[view.Row], format string) error
	// Arguments are the arguments with which a command, such as 'entrace view', opens the same files again.
	// If Arguments is not empty, the page shows commands to copy.
	Arguments []string
}

// A Format is a file format.
type Format struct {
	Name      string `json:"name"`
	Extension string `json:"extension"` // the extension of the files, with the dot
	Text      string `json:"text"`      // describes the format
}

// A State says whether a file still grows, or how it ended.
type State struct {
	Word string `json:"word"` // running, ended, killed or damaged
	Text string `json:"text"` // the same state, with details
	// Reason says why a killed process died, such as a panic. It is empty if the reason is not known.
	Reason string `json:"-"`
}

//go:embed dist/index.html dist/app.js dist/app.css
var dist embed.FS

// assets maps the path of each file of the page to the subtype of its media type, which is text/….
var assets = map[string]string{"": "html", "app.js": "javascript", "app.css": "css"}

// A Handler serves a trace. It is safe for concurrent use.
type Handler struct {
	options Options

	nonce   string     // part of the ETags, different for each handler
	growing sync.Mutex // held while the files are searched for new entries
	fixing  sync.Mutex // held while clocks are corrected, so that several requests wait for one view
	mu      sync.Mutex // held while the view is replaced
	state   *state
	against *state          // nil: there is none
	pins    map[string]*pin // the states that paused pages show
	clients int
	idle    chan struct{} // holds an item if the last client has gone
	resting *time.Timer   // reset by each request; nil before the first request
}

// A state holds a view and data computed from it.
type state struct {
	v          *view.View
	columns    columns.Columns // of v
	against    *state          // nil: there is none
	generation int             // incremented when rows get other numbers
	corrected  []skew          // the corrections of clocks
	*files
	facts
	results
}

// A Run is a recording that the page can show.
type Run struct {
	Name string `json:"name"`
	Text string `json:"text"` // a description of the recording
}

// New returns a handler that shows a view. A nil o means defaults. If v is nil, the page shows the text
// [Options].Waiting, and asks the server again until a handler with a view serves the same address.
func New(v *view.View, o *Options) *Handler {
	if o == nil {
		o = new(Options)
	}
	h := &Handler{options: *o, idle: make(chan struct{}, 1), pins: make(map[string]*pin), nonce: rand.Text()[:8]}
	h.options.Base = strings.TrimSuffix(o.Base, "/")
	if o.Against != nil {
		h.against = &state{v: o.Against, columns: columns.Of(o.Against), files: new(files), facts: factsOf(o.Against, nil)}
	}
	if v != nil {
		h.state = h.stateOf(v, 0)
	}
	return h
}

// stateOf returns a new state for a view.
func (h *Handler) stateOf(v *view.View, generation int) *state {
	f := h.filesOf(v)
	return &state{v: v, columns: columns.Of(v), against: h.against, generation: generation, files: f, facts: factsOf(v, f.names)}
}

// correct returns a state with corrected clocks.
func (h *Handler) correct(ctx context.Context, s *state) (*state, error) {
	h.fixing.Lock()
	defer h.fixing.Unlock()
	return remember(&s.results, "correct", "", func() (*state, error) {
		v, err := h.options.Correct(ctx)
		if err != nil {
			return nil, err
		}
		c := h.stateOf(v, s.generation)
		c.corrected = s.clocks()
		return c, nil
	})
}

// Idle returns a channel that receives an item when the last open page was closed.
func (h *Handler) Idle() <-chan struct{} { return h.idle }

func (h *Handler) view() *state { return h.pinned("") }

// editorPages are the sources of an editor's own pages. With embed=1, only these pages may embed the page. No web
// site can have such an address.
const editorPages = "vscode-webview: vscode-file:"

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	ancestors := "'none'"
	if r.URL.Query().Get("embed") == "1" {
		ancestors = editorPages
	}
	head.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors "+ancestors)
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cache-Control", "no-store")
	if !h.isOurs(r) {
		fail(w, http.StatusForbidden, "the request is for another host: open the address that 'entrace view' has printed")
		return
	}
	path, ok := strings.CutPrefix(r.URL.Path, h.options.Base+"/")
	kind, isAsset := assets[path]
	switch {
	case ok && isAsset:
		if h.isRead(w, r) {
			asset(w, r, path, kind)
		}
	case h.options.Authorize != nil && !h.options.Authorize(r):
		fail(w, http.StatusUnauthorized, "the token is missing or wrong: open the address that 'entrace view' has printed")
	case !ok:
		fail(w, http.StatusNotFound, "not found")
	case !h.isRead(w, r):
	case h.view() != nil:
		h.api(w, r, path)
	case path == "api/meta":
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_ = json.NewEncoder(w).Encode(struct {
			Waiting string `json:"waiting"`
			Runs    []Run  `json:"runs,omitempty"`
		}{h.options.Waiting, h.options.Runs})
	case path == "api/choose" && h.options.Choose != nil:
		h.options.Choose(r.FormValue("run"), r.FormValue("against"))
	default:
		fail(w, http.StatusServiceUnavailable, h.options.Waiting)
	}
}

// isOurs reports whether the headers Host and Origin of a request are names of this server. If they are not, the
// request comes from another site, or uses the name of another site.
func (h *Handler) isOurs(r *http.Request) bool {
	if len(h.options.Hosts) == 0 {
		return true
	}
	if !slices.Contains(h.options.Hosts, r.Host) {
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && slices.Contains(h.options.Hosts, u.Host)
}

func (h *Handler) isRead(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return true
	}
	w.Header().Set("Allow", "GET, HEAD")
	fail(w, http.StatusMethodNotAllowed, "only GET and HEAD requests are served")
	return false
}

// asset answers with a file of the page.
func asset(w http.ResponseWriter, r *http.Request, name, kind string) {
	b, _ := dist.ReadFile("dist/" + cmp.Or(name, "index.html"))
	w.Header().Set("Content-Type", "text/"+kind+"; charset=utf-8")
	sum := sha256.Sum256(b)
	cached(w, r, hex.EncodeToString(sum[:8]), func() { _, _ = w.Write(b) }) //nolint:gosec // a file of the page
}

// cached writes an answer, unless the client already has the answer with the given tag.
func cached(w http.ResponseWriter, r *http.Request, tag string, write func()) {
	tag = strconv.Quote(tag)
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "private, no-cache")
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if r.Method != http.MethodHead {
		write()
	}
}

// A problem is an error with the HTTP status and the text for the client.
type problem struct {
	status int
	text   string
}

func (p *problem) Error() string { return p.text }

func badRequest(text string) error { return &problem{status: http.StatusBadRequest, text: text} }

// A question is a func that answers requests for a path.
type question func(q *request, ctx context.Context) (any, error)

// handlers has the question of each path.
var handlers = map[string]question{
	"api/choice":   (*request).choice,
	"api/complete": (*request).complete,
	"api/critical": (*request).critical,
	"api/entry":    (*request).entry,
	"api/explain":  (*request).explain,
	"api/facets":   (*request).facets,
	"api/find":     (*request).hit,
	"api/flame":    (*request).flame,
	"api/heat":     (*request).heat,
	"api/lanes":    (*request).lanes,
	"api/logs":     (*request).records,
	"api/meta":     (*request).meta,
	"api/row":      (*request).rowOf,
	"api/rows":     (*request).rows,
	"api/runtime":  (*request).runtime,
	"api/save":     (*request).save,
	"api/folded":   (*request).folded,
	"api/states":   (*request).stateStrips,
	"api/strip":    (*request).strip,
	"api/table":    (*request).table,
	"api/talk":     (*request).talk,
	"api/top":      (*request).top,
	"api/waited":   (*request).waitedFor,
	"api/waits":    (*request).waits,
	"api/way":      (*request).way,
	"api/why":      (*request).why,
}

// api answers a request for data of the trace.
func (h *Handler) api(w http.ResponseWriter, r *http.Request, path string) {
	if path == "api/events" {
		h.events(w, r)
		return
	}
	answer := handlers[path]
	if answer == nil {
		fail(w, http.StatusNotFound, "not found")
		return
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		fail(w, http.StatusBadRequest, "the query part of the address cannot be read")
		return
	}
	s := h.pinned(values.Get("pin"))
	tag := fmt.Sprintf("%s-%d-%d-%x", h.nonce, s.generation, s.entries(), crc32.ChecksumIEEE([]byte(r.URL.RawQuery)))
	if path == "api/meta" { // the answer also depends on facts that are not entries, for example that the program was killed
		all, states := h.states(s.v)
		b, _ := json.Marshal([]any{all, states, h.notices()}) //nolint:errchkjson // of texts
		tag += fmt.Sprintf("-%x", crc32.ChecksumIEEE(b))
	}
	if r.Header.Get("If-None-Match") == strconv.Quote(tag) {
		cached(w, r, tag, nil)
		return
	}
	a, s, err := h.answer(r.Context(), s, answer, values) // a value that becomes JSON, bytes, or a func that writes bytes
	if err != nil {
		h.failed(w, r, s, err)
		return
	}
	cached(w, r, tag, func() {
		w.Header().Set("Content-Type", "application/octet-stream")
		switch x := a.(type) {
		case []byte:
			_, _ = w.Write(x)
		case func(io.Writer) error:
			if x(w) != nil {
				panic(http.ErrAbortHandler) // the client must notice that the answer is incomplete
			}
		default:
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			_ = json.NewEncoder(w).Encode(a)
		}
	})
}

// answer answers a question about a state, or about the state with corrected clocks if the question asks for that. It
// returns the state to which the answer belongs.
func (h *Handler) answer(ctx context.Context, s *state, to question, values url.Values) (any, *state, error) {
	defer h.restLater()
	err := s.intact()
	if err == nil && h.options.Correct != nil && values.Get("clock") == "auto" {
		s, err = h.correct(ctx, s)
	}
	if err != nil {
		return nil, s, err
	}
	a, err := to(&request{state: s, Values: values, handler: h}, ctx)
	return a, s, err
}

// A failure is an error in the form that the client receives.
type failure struct {
	Error   string `json:"error"`
	Pos     *int   `json:"pos,omitempty"` // the position of the error in the query, in bytes
	Hint    string `json:"hint,omitempty"`
	Try     string `json:"try,omitempty"`     // a query that the user may have meant
	Command string `json:"command,omitempty"` // a command for something that the page cannot do
}

func (h *Handler) failed(w http.ResponseWriter, r *http.Request, s *state, err error) {
	if r.Context().Err() != nil {
		return // the client has gone
	}
	f, status := failure{Error: err.Error()}, http.StatusInternalServerError
	if p, ok := errors.AsType[*problem](err); ok {
		status = p.status
	}
	if q, ok := errors.AsType[*query.Error](err); ok {
		status = http.StatusUnprocessableEntity
		f = failure{Error: q.Text, Pos: &q.Pos, Hint: q.Hint, Try: q.Try}
	}
	if t, ok := errors.AsType[*tableError](err); ok {
		status, f.Command = http.StatusUnprocessableEntity, h.command(s, "stats", "-q", t.query)
	}
	writeFailure(w, status, f)
}

func fail(w http.ResponseWriter, status int, text string) {
	writeFailure(w, status, failure{Error: text})
}

func writeFailure(w http.ResponseWriter, status int, f failure) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(f)
}

// A request holds the parameters of a request and the state from which it is answered.
type request struct {
	*state
	url.Values

	handler *Handler
	err     error // the first error of the methods that read parameters
}

// fail sets the error of a request, unless it has one.
func (q *request) fail(text string) { q.err = cmp.Or(q.err, badRequest(text)) }

// number returns the value of a parameter, which must be a number from 0 to limit-1. It returns missing if the
// request does not have the parameter.
func (q *request) number(name string, missing, limit int) int {
	text := q.Get(name)
	if text == "" {
		return missing
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n >= limit {
		q.fail("parameter " + name + " must be a number from 0 to " + strconv.Itoa(limit-1))
		return 0
	}
	return n
}

// bins returns the parameter n, the number of parts into which the answer divides a time.
func (q *request) bins() int {
	n := q.number("n", 1000, maxBins+1)
	if n == 0 {
		q.fail("parameter \"n\" must be above 0")
	}
	return n
}

// row returns the row that a parameter names. The row must have a line in the tree, or be 0.
func (q *request) row(name string) view.Row {
	r := view.Row(q.number(name, 0, q.v.Len()))
	if r != 0 && !isShown(q.v, r) {
		q.fail(name + " must be a row that the page shows")
	}
	return r
}

// rowOf answers with the row of the entry FILE#ID. Links contain entries instead of rows, so that they stay valid
// when the files are converted.
func (q *request) rowOf(_ context.Context) (any, error) {
	at := strings.LastIndexByte(q.Get("id"), '#') // the last #, because the name of a file may contain #
	name, id := q.Get("id")[:max(0, at)], q.Get("id")[at+1:]
	n, err := strconv.ParseUint(id, 10, 32)
	if at < 0 || err != nil {
		return nil, badRequest("parameter \"id\" must be FILE#ENTRY, as in app.et#12")
	}
	for i := range q.v.Files() {
		if name == "" && i == 0 || q.names[i] == name {
			if r, ok := q.v.Row(i, uint32(n)); ok {
				return map[string]any{"row": r}, nil
			}
		}
	}
	return nil, &problem{status: http.StatusNotFound, text: "entry " + q.Get("id") + " is not in this trace"}
}
