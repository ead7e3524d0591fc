package viewer

import (
	"context"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/view"
)

// A meta holds properties of the trace.
type meta struct {
	Waiting     string         `json:"waiting,omitempty"` // the text to show if there is no trace yet; if it is set, only Runs is also set
	Runs        []Run          `json:"runs,omitempty"`    // recordings to choose from if there is no trace yet
	Fingerprint string         `json:"fingerprint"`
	Same        bool           `json:"same"`
	Files       []file         `json:"files"`
	Entries     int            `json:"entries"`
	Rows        int            `json:"rows"`
	Generation  int            `json:"generation"`
	Services    []string       `json:"services"`
	Names       map[string]int `json:"names"`
	Timed       bool           `json:"timed"`
	Spans       bool           `json:"spans"`
	Goroutines  bool           `json:"goroutines"`
	First       int64          `json:"first_unix_nano"`
	Last        int64          `json:"last_unix_nano"`
	Follow      bool           `json:"follow"`
	Editor      string         `json:"editor"`
	Command     string         `json:"command"`
	Notices     []string       `json:"notices"`
	State       string         `json:"state"`
	States      []State        `json:"states"`
	Newest      int            `json:"newest"`
	Clocks      []skew         `json:"clocks"`
	Corrected   []skew         `json:"corrected"`
	CanCorrect  bool           `json:"canCorrect"`
	Against     string         `json:"against"`
	Formats     []Format       `json:"formats"`
	Static      *string        `json:"static,omitempty"` // the query with which a static page was written; missing for other pages
}

type file struct {
	Name    string `json:"name"`
	Entries int    `json:"entries"`
}

// meta answers with properties of the trace.
func (q *request) meta(_ context.Context) (any, error) {
	m := q.handler.metaOf(q.state)
	if known := q.Get("f"); known != "" {
		m.Same = sameTrace(q.v, known)
	}
	return m, nil
}

func (h *Handler) metaOf(s *state) *meta {
	v, o, whole := s.v, &h.options, s.whole()
	m := &meta{
		Fingerprint: s.fingerprint, Same: true, Entries: s.entries(), Rows: v.Len(), Generation: s.generation, Services: s.services(), Names: s.hues(),
		Timed: whole.timed, Spans: whole.spans, First: whole.from, Last: whole.to, Newest: whole.newest, Goroutines: v.HasStates(),
		Follow: o.Follow, Editor: o.Editor, Command: h.command(s, "view"), Notices: h.notices(), Clocks: s.clocks(), Corrected: append([]skew{}, s.corrected...),
		CanCorrect: o.Correct != nil, Against: o.AgainstName, Formats: append([]Format{}, o.Formats...),
	}
	for i := range v.Files() {
		m.Files = append(m.Files, file{s.names[i], v.Entries(i)})
	}
	m.State, m.States = h.states(v)
	return m
}

// command returns a command line of 'entrace', quoted for a shell, with verb and flags for the files of s. It
// returns "" if no command can open the files.
func (h *Handler) command(s *state, verb string, flags ...string) string {
	if len(h.options.Arguments) == 0 {
		return ""
	}
	var line strings.Builder
	line.WriteString("entrace " + verb)
	if verb == "view" {
		flags = slices.Concat(flags, h.options.AgainstArguments)
	}
	for _, c := range s.corrected {
		flags = append(flags, "--clock", c.Name+"="+c.Late)
	}
	for _, arg := range slices.Concat(flags, h.options.Arguments) {
		line.WriteString(" " + shellQuote(arg))
	}
	return line.String()
}

// shellQuote quotes an argument for a shell.
func shellQuote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=+:,@%") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// entries returns the number of entries in the files. The page must learn of every new entry, even of an entry
// that is not a row, such as the end of a span.
func (s *state) entries() (n int) {
	for i := range s.v.Files() {
		n += s.v.Entries(i)
	}
	return n
}

// notices returns the messages about the files.
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
