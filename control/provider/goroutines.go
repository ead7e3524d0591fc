package provider

import (
	"context"
	"errors"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/format"
	texts "github.com/entrace-go/entrace/internal/text"
)

// maxStacks is the maximum number of stacks in a dump of goroutines that get an entry of their own.
const maxStacks = 2000

// dumpGoroutines writes an entry for each stack, with the number of goroutines that have it. It leaves out
// the goroutines of this module. The runtime stops the program for a moment and does not check ctx then.
// Entries that were written before the end of ctx remain.
func dumpGoroutines(ctx context.Context, s *control.Session) error {
	if s.On&control.Goroutines == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	now := time.Now()
	w := &limited{ctx: ctx, most: maxProfileBytes}
	if err := pprof.Lookup("goroutine").WriteTo(w, 0); err != nil {
		return err
	}
	// WriteTo may drop the error of w.
	if err := ctx.Err(); err != nil {
		return err
	}
	if w.over() {
		return errors.New("the goroutine profile is too large")
	}
	groups, err := parseProfile(w.data)
	if err != nil {
		return err
	}
	groups = slices.DeleteFunc(groups, (*group).own)
	moveInside(s, groups)
	return writeGoroutines(ctx, s, now, groups)
}

// moveInside moves goroutines to inner spans. Only spans without a parent in this process set labels. If one
// goroutine works alone for such a span, it must be in the innermost open span below it. Goroutines of the standard
// library do not count. A goroutine that waits for another goroutine is not moved if a goroutine without a span waits
// for a lock: the latter may be a worker that does the work of the inner span.
func moveInside(s *control.Session, groups []*group) {
	working, locked := make(map[format.SpanRef]int64), false
	for _, g := range groups {
		if g.ofProgram() {
			working[g.ref] += g.values[0]
			locked = locked || !g.ref.IsValid() && g.waitsIn("sync.(*Mutex)", "sync.(*RWMutex)")
		}
	}
	for _, g := range groups {
		handed := locked && g.waitsIn("runtime.chan", "runtime.select", "sync.(*WaitGroup)", "sync.(*Cond)")
		if g.ref.IsValid() && working[g.ref] == 1 && g.ofProgram() && !handed {
			g.ref = s.Innermost(g.ref)
		}
	}
}

// waitsIn reports whether the goroutine waits in a function whose name begins with one of the prefixes.
func (g *group) waitsIn(prefixes ...string) bool {
	for name := range g.functions() {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			return true
		}
		if !inStandardLibrary(texts.PackageOf(name)) {
			return false
		}
	}
	return false
}

func writeGoroutines(ctx context.Context, s *control.Session, at time.Time, groups []*group) error {
	slices.SortFunc(groups, func(a, b *group) int {
		if a.ref.IsValid() != b.ref.IsValid() {
			if a.ref.IsValid() {
				return -1
			}
			return 1
		}
		return mostFirst(a, b)
	})
	return writeGroups(ctx, s, control.Goroutines, at, groups, maxStacks, texts.OfApplication, func(values [2]int64) []format.Attribute {
		return []format.Attribute{u64("count", uint64(values[0]))}
	})
}

// A limited is a writer that keeps data up to the limit most. If it gets more, it drops all data, and only
// counts bytes.
type limited struct {
	ctx     context.Context // may be nil
	most    int
	data    []byte // nil if the limit was exceeded
	written uint64
}

func (w *limited) Write(b []byte) (int, error) {
	if w.ctx != nil && w.ctx.Err() != nil {
		return 0, w.ctx.Err()
	}
	w.written += uint64(len(b))
	if w.over() {
		w.data = nil
	} else {
		w.data = append(w.data, b...)
	}
	return len(b), nil
}

func (w *limited) over() bool { return w.written > uint64(w.most) }
