package provider

import (
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A written is an entry that a provider wrote.
type written struct {
	p   control.Set
	ref format.SpanRef
	at  time.Time
	*format.TraceEntry
}

// A record collects entries.
type record struct {
	mu sync.Mutex

	entries []written
	err     error // the error that Write returns
}

func (r *record) session(on control.Set, params map[string]string) *control.Session {
	return control.NewSession(on, params, func(p control.Set, ref format.SpanRef, at time.Time, e *format.TraceEntry) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.entries = append(r.entries, written{p, ref, at, e.Clone()})
		return r.err
	})
}

func (r *record) named(name string) []written {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.entries), func(w written) bool { return w.Metadata.Name != name })
}

func (w written) u64(t *testing.T, name string) uint64 {
	t.Helper()
	v, ok := w.Attribute(name)
	n, isInt := v.U64()
	if !ok || !isInt {
		t.Fatalf("%s: attribute %q is %v, found %v", w.Metadata.Name, name, v.Kind(), ok)
	}
	return n
}

func (w written) text(t *testing.T, name string) string {
	t.Helper()
	v, ok := w.Attribute(name)
	if !ok || v.Kind() != format.KindString {
		t.Fatalf("%s: attribute %q is %v, found %v", w.Metadata.Name, name, v.Kind(), ok)
	}
	return v.Text()
}

func (w written) has(name string) bool {
	_, ok := w.Attribute(name)
	return ok
}

var must = expect.Must
