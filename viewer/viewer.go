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
	"hash/crc32"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// Options change how the handler works.
type Options struct {
	// Authorize reports whether a request may see the trace. By default every one may.
	Authorize func(r *http.Request) bool
	// Hosts are the names, with their ports, by which the server may be called, as in the header
	// Host. By default it may be called by any, which is only right behind a server that has
	// looked at it.
	Hosts []string
	// Base is the path below which the handler is mounted, such as "/debug/trace".
	Base string
	// Names returns the name of a file of the view. By default it is that of the file.
	Names func(file int) string
	// Notices returns what people should know of the files: where one is damaged, say.
	Notices func() []string
	// States returns the state of each file of a view, and a text for all of them in a few words.
	// Both are empty if that is not known.
	States func(v *view.View) (all string, files []State)
	// Editor is the URL that opens a source file, with {path} and {line} in it; empty: none.
	Editor string
	// Follow lets the page show what is written to the files while it is open.
	Follow bool
	// Waiting is what the page says while there is no view, such as "waiting for app.et".
	Waiting string
	// Reopen, if set, returns the view of the files for which the names stand by now, nil while
	// these are the ones that are shown. The page goes on with it. Names and Notices are those
	// of the new files from then on. It is called once a second while a page is open, by one
	// goroutine at a time.
	Reopen func(ctx context.Context) (*view.View, error)
	// Released, if set, is called when the handler has dropped what requests made, such as columns
	// of attributes: a while after the last request. A program that does nothing else can give the
	// memory back to the system then.
	Released func()
	// Arguments are those with which a command, such as 'entrace view', opens the same files
	// again: the page offers commands to paste if there are any.
	Arguments []string
}

// A State says how a file ended, or that it grows.
type State struct {
	Word string `json:"word"` // running, ended, killed or damaged
	Text string `json:"text"` // the same, with what else is known of it
}

//go:embed dist
var dist embed.FS

// assets are the files of the page, by their paths.
var assets = map[string]string{"": "index.html", "app.js": "app.js", "app.css": "app.css"}

// A Handler serves a trace. It is safe for concurrent use.
type Handler struct {
	options Options

	nonce   string     // tells the answers of this handler from those of another one
	growing sync.Mutex // held while the files are looked at
	mu      sync.Mutex // held while the view is replaced
	state   *state
	pins    map[string]*pin // what pages show that are paused
	clients int
	idle    chan struct{} // has something once the last client has gone
	resting *time.Timer   // runs since the last request; nil before the first one
}

// A state is a view with what was computed of it.
type state struct {
	v           *view.View
	fingerprint string
	names       []string // of the files
	generation  int      // grows when rows get other numbers

	mu      sync.Mutex
	errors  *rankSet // by rank, as hidden
	hidden  *rankSet // rows without a line
	whole   *extent  // of all rows
	clocks  []skew   // nil: not known
	layouts latest[*layout]
	finds   latest[*found]
}

// New returns a handler that shows a view. A nil o means defaults. Without a view the page says what
// it waits for, and asks again until another handler has its address.
func New(v *view.View, o *Options) *Handler {
	if o == nil {
		o = new(Options)
	}
	h := &Handler{options: *o, idle: make(chan struct{}, 1), pins: make(map[string]*pin), nonce: rand.Text()[:8]}
	h.options.Base = strings.TrimSuffix(o.Base, "/")
	if v != nil {
		h.state = h.stateOf(v, 0)
	}
	return h
}

// stateOf returns the state that shows a view.
func (h *Handler) stateOf(v *view.View, generation int) *state {
	s := &state{v: v, fingerprint: fingerprint(v, fingerprintSize), generation: generation}
	for i, f := range v.Files() {
		if h.options.Names != nil {
			s.names = append(s.names, h.options.Names(i))
		} else {
			s.names = append(s.names, f.Name())
		}
	}
	return s
}

// Idle returns a channel that gets something when the last page that was open has gone.
func (h *Handler) Idle() <-chan struct{} { return h.idle }

func (h *Handler) view() *state {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state
}

// fingerprintSize is how many bytes of entries tell a trace from others.
const fingerprintSize = 64 << 10

// sameTrace reports whether a trace is the one, or has grown out of the one, of which known is the
// fingerprint.
func sameTrace(v *view.View, known string) bool {
	parts := strings.Split(known, "-")
	if len(parts) != 3 {
		return false
	}
	n, err := strconv.ParseInt(parts[1], 36, 32)
	return err == nil && n > 0 && n <= fingerprintSize && fingerprint(v, n) == known
}

// fingerprint returns a text that tells a trace from others: a hash of the first bytes, at the most, of
// the entries of its first file, how many these are, and how many files there are. It is the same for
// an IET and for the ET that is made of it. See [sameTrace] for a file that has grown.
func fingerprint(v *view.View, most int64) string {
	hash, n := hashOf(v, 0, most)
	return hash + "-" + strconv.FormatInt(n, 36) + "-" + strconv.Itoa(len(v.Files()))
}

// hashOf returns a hash of the first bytes of a file's entries, and how many these are.
func hashOf(v *view.View, file int, most int64) (hash string, n int64) {
	e := v.Files()[file].Raw()
	h := sha256.New()
	left, gap := most, int64(e.Gap())
	for id := uint32(0); int(id) < v.Entries(file) && left > 0; id++ {
		from := e.Offset(id) + gap
		n := min(left, e.Offset(id+1)-from)
		if e.View(from, n, func(b []byte) { h.Write(b) }) != nil {
			break
		}
		left -= n
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), most - left
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cross-Origin-Resource-Policy", "same-origin")
	head.Set("Cross-Origin-Opener-Policy", "same-origin")
	head.Set("Cache-Control", "no-store")
	if !h.isOurs(r) {
		fail(w, http.StatusForbidden, "this server is not called by that name")
		return
	}
	path, ok := strings.CutPrefix(r.URL.Path, h.options.Base+"/")
	name, isAsset := assets[path]
	switch {
	case ok && isAsset:
		if h.isRead(w, r) {
			h.asset(w, r, name)
		}
	case h.options.Authorize != nil && !h.options.Authorize(r):
		fail(w, http.StatusUnauthorized, "open the address that 'entrace view' has printed")
	case !ok:
		fail(w, http.StatusNotFound, "there is nothing here")
	case !h.isRead(w, r):
	case h.view() != nil:
		h.api(w, r, path)
	case path == "api/meta":
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_ = json.NewEncoder(w).Encode(map[string]string{"waiting": h.options.Waiting})
	default:
		fail(w, http.StatusServiceUnavailable, h.options.Waiting)
	}
}

// isOurs reports whether a request is for this server, and not for another site by whose name it
// is called, or from one.
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
	fail(w, http.StatusMethodNotAllowed, "nothing here can be changed")
	return false
}

func (h *Handler) asset(w http.ResponseWriter, r *http.Request, name string) {
	b, err := fs.ReadFile(dist, "dist/"+name)
	if err != nil {
		fail(w, http.StatusNotFound, "the page is not part of this program")
		return
	}
	switch {
	case strings.HasSuffix(name, ".js"):
		w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
	case strings.HasSuffix(name, ".css"):
		w.Header().Set("Content-Type", "text/css; charset=utf-8")
	default:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
	}
	sum := sha256.Sum256(b)
	cached(w, r, hex.EncodeToString(sum[:8]), func() { _, _ = w.Write(b) })
}

// cached writes an answer unless the client has it.
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

// An answer is the body of a response of the API: something to write as JSON, or bytes.
type answer struct {
	json  any
	bytes []byte
}

// A problem is an error that the client is told of.
type problem struct {
	status int
	text   string
}

func (p *problem) Error() string { return p.text }

func badRequest(text string) error { return &problem{status: http.StatusBadRequest, text: text} }

// api answers a request for something of the trace.
func (h *Handler) api(w http.ResponseWriter, r *http.Request, path string) {
	if path == "api/events" {
		h.events(w, r)
		return
	}
	calls := map[string]func(ctx context.Context, s *state, q url.Values) (answer, error){
		"api/meta": h.meta, "api/top": h.top, "api/rows": h.rows, "api/entry": h.entry, "api/logs": h.logs,
		"api/find": h.find, "api/complete": h.complete, "api/row": h.row, "api/way": h.way,
	}
	call := calls[path]
	if call == nil {
		fail(w, http.StatusNotFound, "there is nothing here")
		return
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		fail(w, http.StatusBadRequest, "the query part of the address cannot be read")
		return
	}
	s := h.pinned(values.Get("pin"))
	tag := h.nonce + "-" + strconv.Itoa(s.generation) + "-" + strconv.Itoa(s.entries()) + "-" + strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(r.URL.RawQuery))), 36)
	if r.Header.Get("If-None-Match") == strconv.Quote(tag) {
		cached(w, r, tag, nil)
		return
	}
	a, err := call(r.Context(), s, values)
	h.restLater()
	if err != nil {
		h.failed(w, r, err)
		return
	}
	cached(w, r, tag, func() {
		if a.bytes != nil {
			w.Header().Set("Content-Type", "application/octet-stream")
			_, _ = w.Write(a.bytes)
			return
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_ = json.NewEncoder(w).Encode(a.json)
	})
}

// A failure is an error as a client is told of it.
type failure struct {
	Error   string `json:"error"`
	Pos     *int   `json:"pos,omitempty"` // the byte of the query where it is
	Hint    string `json:"hint,omitempty"`
	Try     string `json:"try,omitempty"`     // a query that may be meant
	Command string `json:"command,omitempty"` // that does what the page does not
}

func (h *Handler) failed(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // nobody is there
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
		status, f.Command = http.StatusUnprocessableEntity, h.command("stats", "-q", t.query)
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

// number reads a number of a request, which is at least 0 and below a limit.
func number(q url.Values, name string, missing, limit int) (int, error) {
	s := q.Get(name)
	if s == "" {
		return missing, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n >= limit {
		return 0, badRequest(name + " is not a number from 0 to " + strconv.Itoa(limit-1))
	}
	return n, nil
}

// rowOf reads a row that is in the tree.
func (s *state) rowOf(q url.Values, name string) (view.Row, error) {
	n, err := number(q, name, 0, s.v.Len())
	if err != nil {
		return 0, err
	}
	if r := view.Row(n); r == 0 || isShown(s.v, r) {
		return r, nil
	}
	return 0, badRequest(name + " is a row that is not shown")
}

// row returns the row of an entry, FILE#ID, so that links outlive a conversion.
func (h *Handler) row(_ context.Context, s *state, q url.Values) (answer, error) {
	name, id, ok := strings.Cut(q.Get("id"), "#")
	n, err := strconv.ParseUint(id, 10, 32)
	if !ok || err != nil {
		return answer{}, badRequest("id is not as in app.et#12")
	}
	for i := range s.v.Files() {
		if name == "" && i == 0 || s.names[i] == name {
			if r, ok := s.v.Row(i, uint32(n)); ok {
				return answer{json: map[string]any{"row": r}}, nil
			}
		}
	}
	return answer{}, &problem{status: http.StatusNotFound, text: "entry " + q.Get("id") + " is not in this trace"}
}

// meta says what the trace is.
func (h *Handler) meta(_ context.Context, s *state, q url.Values) (answer, error) {
	v := s.v
	type file struct {
		Name    string `json:"name"`
		Entries int    `json:"entries"`
	}
	var files []file
	for i := range v.Files() {
		files = append(files, file{s.names[i], v.Entries(i)})
	}
	whole := s.extent(0)
	state, states := h.states(v)
	return answer{json: map[string]any{
		"fingerprint": s.fingerprint, "same": q.Get("f") == "" || sameTrace(v, q.Get("f")), "files": files, "entries": s.entries(), "rows": v.Len(), "generation": s.generation, "services": s.services(),
		"timed": whole.timed, "spans": whole.spans, "first": strconv.FormatInt(whole.from, 10), "last": strconv.FormatInt(whole.to, 10),
		"follow": h.options.Follow, "editor": h.options.Editor, "command": h.command("view"), "notices": h.notices(), "state": state, "states": states, "newest": whole.newest, "clocks": s.skews(), "clockCommand": h.clockCommand(s),
	}}, nil
}

// command returns a command line of 'entrace' with that verb and flags for the same files, quoted for
// a shell, "" if no command opens them.
func (h *Handler) command(verb string, flags ...string) string {
	if len(h.options.Arguments) == 0 {
		return ""
	}
	var line strings.Builder
	line.WriteString("entrace " + verb)
	for _, arg := range slices.Concat(flags, h.options.Arguments) {
		line.WriteString(" " + shellQuote(arg))
	}
	return line.String()
}

// clockCommand returns the command that opens the files with clocks that agree, "" if they do.
func (h *Handler) clockCommand(s *state) string {
	var flags []string
	for _, c := range s.skews() {
		flags = append(flags, "--clock", c.Name+"="+c.Late)
	}
	if len(flags) == 0 {
		return ""
	}
	return h.command("view", flags...)
}

// shellQuote writes an argument as a shell reads it.
func shellQuote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=+:,@%") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// entries returns how many entries there are. More of them are news even if they are no rows: the
// ends of spans.
func (s *state) entries() (n int) {
	for i := range s.v.Files() {
		n += s.v.Entries(i)
	}
	return n
}

// notices returns what people should know of the files.
func (h *Handler) notices() []string {
	if h.options.Notices == nil {
		return []string{}
	}
	return append([]string{}, h.options.Notices()...)
}

// states returns the states of the files of a view, and a text for all of them.
func (h *Handler) states(v *view.View) (all string, files []State) {
	if h.options.States != nil {
		all, files = h.options.States(v)
	}
	return all, append([]State{}, files...)
}

// services returns the services, the ones with most rows first: that gives them their colors.
func (s *state) services() []string {
	counts := make(map[string]int)
	byResource := make(map[uint16]int)
	for k := range s.v.Columns().Blocks() {
		for _, code := range s.v.Columns().Block(k).Resource {
			byResource[code]++
		}
	}
	resources := s.v.Columns().Resources()
	for code, n := range byResource {
		if int(code) < len(resources) {
			if name := s.v.Service(view.Row(resources[code])); name != "" {
				counts[name] += n
			}
		}
	}
	names := s.v.Services()
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
	return append([]string{}, names...)
}

// growEvery is how often the files are looked at, at most: what takes longer is done less often.
const growEvery = 100 * time.Millisecond

// events tells a client when the trace has grown, until one of both has gone. With pause the first
// event has the name of a pin, with which requests are answered as of now. If pause is the name of
// one that is still there, it is the same.
func (h *Handler) events(w http.ResponseWriter, r *http.Request) {
	flusher := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/event-stream")
	h.come()
	defer h.leave()
	pin := ""
	if q := r.URL.Query(); q.Has("pause") {
		pin = h.pin(q.Get("pause"))
		defer h.unpin(pin)
	}
	told, generation, notices := -1, -1, h.notices()
	_, states := h.states(h.view().v)
	for round, quiet := 1, 0; ; round, quiet = round+1, quiet+1 {
		begun := time.Now()
		sometimes := round%10 == 0
		if sometimes {
			h.reopen(r.Context())
		}
		s, err := h.pinned(pin), error(nil)
		if told >= 0 || pin == "" {
			s, err = h.grow(r.Context())
		}
		wait := max(growEvery, 5*time.Since(begun))
		news := false
		if sometimes {
			_, now := h.states(s.v)
			news = !slices.Equal(notices, h.notices()) || !slices.Equal(states, now)
		}
		if n := s.entries(); n != told || s.generation != generation || err != nil || news || quiet > 100 {
			event := map[string]any{"rows": s.v.Len(), "entries": n, "generation": s.generation}
			if told < 0 && pin != "" {
				event["pin"] = pin
			}
			if news {
				notices = h.notices()
				event["state"], states = h.states(s.v)
				event["notices"], event["states"] = notices, states
			}
			if err != nil {
				event["error"] = err.Error()
			}
			b, _ := json.Marshal(event) //nolint:errchkjson // of numbers and a text
			if _, werr := w.Write(append(append([]byte("data: "), b...), '\n', '\n')); werr != nil || flusher.Flush() != nil {
				return
			}
			told, generation, quiet = n, s.generation, 0
		}
		if err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(wait):
		}
	}
}

// A pin keeps the trace as it was for those who have its name.
type pin struct {
	state *state
	users int
	gone  *time.Timer // runs when there are no users
}

// pinAfter is how long a pin stays after its last user has gone, who may come back: a connection
// can break.
const pinAfter = 10 * time.Second

// pin keeps the trace as it is now, or as the pin of that name has it, and returns its name.
func (h *Handler) pin(name string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.pins[name]
	if p == nil {
		name = rand.Text()
		p = &pin{state: h.state}
		h.pins[name] = p
	}
	if p.gone != nil {
		p.gone.Stop()
	}
	p.users++
	return name
}

func (h *Handler) unpin(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.pins[name]
	if p.users--; p.users > 0 {
		return
	}
	p.gone = time.AfterFunc(pinAfter, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if p.users == 0 {
			delete(h.pins, name)
		}
	})
}

// pinned returns the trace that a pin keeps, or else as it is now.
func (h *Handler) pinned(name string) *state {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.pins[name]; p != nil {
		return p.state
	}
	return h.state
}

// restAfter is how long what a request made is kept for the next one.
const restAfter = 30 * time.Second

// restLater makes the handler rest when no request has come for a while.
func (h *Handler) restLater() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.resting == nil {
		h.resting = time.AfterFunc(restAfter, h.rest)
		return
	}
	h.resting.Reset(restAfter)
}

// rest drops what requests made, but for what every page needs.
func (h *Handler) rest() {
	h.mu.Lock()
	states := []*state{h.state}
	for _, p := range h.pins {
		states = append(states, p.state)
	}
	h.mu.Unlock()
	for _, s := range states {
		s.finds.drop()
		s.layouts.drop()
		s.v.Columns().Drop()
	}
	if h.options.Released != nil {
		h.options.Released()
	}
}

func (h *Handler) come() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.clients++
	select {
	case <-h.idle:
	default:
	}
}

// Pages returns how many pages are open.
func (h *Handler) Pages() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.clients
}

func (h *Handler) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.clients--; h.clients == 0 {
		select {
		case h.idle <- struct{}{}:
		default:
		}
	}
}

// grow takes in what was written to the files.
func (h *Handler) grow(ctx context.Context) (*state, error) {
	if !h.options.Follow {
		return h.view(), nil
	}
	h.growing.Lock()
	defer h.growing.Unlock()
	was := h.view()
	v, err := was.v.Extend(ctx)
	if err != nil || v == was.v {
		return was, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state = h.stateOf(v, was.generation)
	return h.state, nil
}

// reopen goes on with the files for which the names stand by now. If these cannot be read, the ones
// that are shown stay, and it is tried again.
func (h *Handler) reopen(ctx context.Context) {
	if h.options.Reopen == nil {
		return
	}
	h.growing.Lock()
	defer h.growing.Unlock()
	v, err := h.options.Reopen(ctx)
	if v == nil || err != nil {
		return
	}
	was := h.view()
	next := h.stateOf(v, was.generation)
	if !continues(v, was.v) {
		next.generation++
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state = next
}

// continues reports whether all rows of a view are in another one, with the same numbers.
func continues(v, was *view.View) bool {
	if v.Len() < was.Len() || len(v.Files()) < len(was.Files()) {
		return false
	}
	for i := range was.Files() {
		known, n := hashOf(was, i, fingerprintSize)
		if now, m := hashOf(v, i, n); now != known || m != n {
			return false
		}
	}
	for r := range was.Rows() {
		file, id := was.ID(r)
		if f, i := v.ID(r); f != file || i != id {
			return false
		}
	}
	return true
}
