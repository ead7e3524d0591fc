package viewer

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

// growEvery is the minimum time between two checks of the files. If a check is slow, the time is longer.
const growEvery = 250 * time.Millisecond

// events sends an event to a client whenever the trace has grown. It ends when the client has disconnected, or
// after an error.
//
// With the parameter pause, the first event contains the name of a pin, which keeps a state. Requests with this name
// are answered from that state. If pause is the name of an existing pin, the client uses that pin. Otherwise the
// client gets a new pin of the current state.
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
		sometimes := round%4 == 0
		if sometimes {
			h.reopen(r.Context())
		}
		s, err := h.pinned(pin), error(nil)
		if told >= 0 || pin == "" {
			s, err = h.grow(r.Context())
		}
		wait := max(growEvery, 5*time.Since(begun))
		news := told < 0 // the page may have data from before this stream
		if sometimes {
			_, now := h.states(s.v)
			news = news || !slices.Equal(notices, h.notices()) || !slices.Equal(states, now)
		}
		if n := s.entries(); n != told || s.generation != generation || err != nil || news || quiet > 40 {
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

// pinAfter is how long a pin without users is kept. A user whose connection broke may come back.
const pinAfter = 10 * time.Second

// pin adds a user to the pin with the given name. If there is no such pin, it makes a pin of the current state with a
// new name. It returns the name of the pin.
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
	p.users--
	if p.users > 0 {
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

// restAfter is the time after the last request at which the results of requests are dropped.
const restAfter = 30 * time.Second

// restLater makes the handler call rest when no further request comes within restAfter.
func (h *Handler) restLater() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.resting == nil {
		h.resting = time.AfterFunc(restAfter, h.rest)
		return
	}
	h.resting.Reset(restAfter)
}

// rest drops the results of requests, except results that every page needs.
func (h *Handler) rest() {
	h.mu.Lock()
	states := []*state{h.state}
	if h.against != nil {
		states = append(states, h.against)
	}
	for _, p := range h.pins {
		states = append(states, p.state)
	}
	h.mu.Unlock()
	for _, s := range states {
		s.forget("")
		s.columns.Drop()
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
	h.clients--
	if h.clients == 0 {
		select {
		case h.idle <- struct{}{}:
		default:
		}
	}
}

// grow adds the entries that were written to the files since the last call.
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

// reopen replaces the view if the names of the files now refer to other files. If the new files cannot be read, it
// keeps the old view, and the next call tries again.
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
