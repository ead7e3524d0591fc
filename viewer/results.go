package viewer

import (
	"slices"
	"sync"
)

// A results caches the last few results of each kind of computation, by key. It is safe for concurrent use.
type results struct {
	mu     sync.Mutex
	byKind map[string][]result
}

type result struct {
	key   string
	value any
}

const fewResults = 4

// forget removes the results of a kind, or all results if kind is "".
func (r *results) forget(kind string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.byKind, kind)
	if kind == "" {
		r.byKind = nil
	}
}

// known returns a result that was computed before, or nil.
func (r *results) known(kind, key string) any {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.byKind[kind] {
		if x.key == key {
			return x.value
		}
	}
	return nil
}

// all returns the results of a kind, the latest first.
func (r *results) all(kind string) (values []any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range slices.Backward(r.byKind[kind]) {
		values = append(values, x.value)
	}
	return values
}

// remember returns the result of compute, or the result of an earlier call for the same kind and key.
func remember[T any](r *results, kind, key string, compute func() (T, error)) (T, error) {
	if v, ok := r.known(kind, key).(T); ok {
		return v, nil
	}
	v, err := compute()
	if err != nil {
		return v, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byKind == nil {
		r.byKind = make(map[string][]result)
	}
	list := append(r.byKind[kind], result{key, v})
	r.byKind[kind] = slices.Clone(list[max(0, len(list)-fewResults):])
	return v, nil
}
