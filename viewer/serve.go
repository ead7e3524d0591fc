package viewer

import (
	"cmp"
	"context"
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

	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

//go:embed dist/index.html dist/app.js dist/app.css
var dist embed.FS

// assets maps the path of each file of the page to the subtype of its media type, which is text/….
var assets = map[string]string{"": "html", "app.js": "javascript", "app.css": "css"}

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

// Ask answers a question of the program itself, in the same way as an HTTP request for api/NAME with these parameters.
// It decodes the JSON of the answer into the value to which answer points, as [json.Unmarshal] does. It returns the
// view to which row numbers in the answer belong. A wrong query is a *query.Error. The handler must have a view.
func (h *Handler) Ask(ctx context.Context, name string, parameters url.Values, answer any) (*view.View, error) {
	to := handlers["api/"+name]
	if to == nil {
		return nil, errors.New("there is no question " + name)
	}
	x, s, err := h.answer(ctx, h.view(), to, parameters)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(x)
	if err != nil {
		return nil, err
	}
	return s.v, json.Unmarshal(b, answer)
}

// Renew adds the entries that were written to the files since the last call, and reports whether there are
// any. With [Options].Follow, an open page does this four times a second.
func (h *Handler) Renew(ctx context.Context) (bool, error) {
	was := h.view()
	h.reopen(ctx)
	now, err := h.grow(ctx)
	return now != was, err
}
