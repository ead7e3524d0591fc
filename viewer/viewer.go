package viewer

import (
	"cmp"
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/entrace-go/entrace/internal/read/columns"
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

// A pin keeps a state for pages that are paused.
type pin struct {
	state *state
	users int
	gone  *time.Timer // runs when there are no users
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

// pinned returns the state that the pin with the given name keeps. If there is no such pin, it returns the current
// state.
func (h *Handler) pinned(name string) *state {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p := h.pins[name]; p != nil {
		return p.state
	}
	return h.state
}

// A problem is an error with the HTTP status and the text for the client.
type problem struct {
	status int
	text   string
}

func (p *problem) Error() string { return p.text }

func badRequest(text string) error { return &problem{status: http.StatusBadRequest, text: text} }

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
