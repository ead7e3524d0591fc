package filesource

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/internal/osfile"
)

// Watch calls f with each new content of the file; see [New].
func (s *source) Watch(f func(*control.Config, error)) (stop func(), err error) {
	s.mu.Lock()
	seen := s.config
	s.mu.Unlock()
	if seen == "" {
		seen = state(s.load())
	}
	w := &watcher{source: s, f: f, seen: seen, folder: filepath.Dir(s.path)}
	if n, err := s.notifier(); err == nil {
		w.notify = n
		w.events, w.errors = n.Events, n.Errors
	}
	quit := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() { w.run(quit) })
	return sync.OnceFunc(func() {
		close(quit)
		done.Wait()
	}), nil
}

// A watcher follows the file for one call of Watch, in one goroutine.
type watcher struct {
	source *source
	f      func(*control.Config, error)
	seen   string // the state that was reported last
	folder string

	notify  *fsnotify.Watcher // nil: polling alone
	events  <-chan fsnotify.Event
	errors  <-chan error
	watched os.FileInfo // the folder that notify watches; nil: none

	timer *time.Timer // runs while something may have changed
	since time.Time   // when the timer was first started; zero: it does not run
}

func (w *watcher) run(quit <-chan struct{}) {
	if w.notify != nil {
		defer w.notify.Close() // Close waits for the watcher's goroutine; its error does not matter
	}
	w.timer = time.NewTimer(time.Hour)
	w.timer.Stop()
	defer w.timer.Stop()
	poll := time.NewTicker(w.source.o.Poll)
	defer poll.Stop()
	w.poll() // for changes since seen
	for {
		select {
		case <-quit:
			return
		case e, ok := <-w.events:
			if !ok {
				w.events = nil
				break
			}
			w.event(e)
		case _, ok := <-w.errors:
			if !ok {
				w.errors = nil
				break
			}
			w.changed(false) // events may be lost
		case <-poll.C:
			w.poll()
		case <-w.timer.C:
			w.since = time.Time{}
			w.report()
		}
	}
}

// poll checks for a change without a notification. It does not report the change at once:
// the writer may not have finished.
func (w *watcher) poll() {
	w.watch()
	if state(w.source.load()) != w.seen {
		w.changed(false)
	}
}

// watch makes notify watch the folder that exists now at the path.
func (w *watcher) watch() {
	if w.notify == nil {
		return
	}
	now, err := osfile.Stat(w.folder)
	if err == nil && w.watched != nil && os.SameFile(now, w.watched) && slices.Contains(w.notify.WatchList(), w.folder) {
		return
	}
	if w.watched != nil {
		_ = w.notify.Remove(w.folder) // the watch may have ended by itself
		w.watched = nil
	}
	if err == nil && w.notify.Add(w.folder) == nil { // otherwise the next poll tries again
		w.watched = now
	}
}

// event handles a notification about the folder.
func (w *watcher) event(e fsnotify.Event) {
	const come, written = fsnotify.Create | fsnotify.Rename | fsnotify.Remove, fsnotify.Write
	switch name := filepath.Base(e.Name); {
	case strings.EqualFold(name, filepath.Base(w.source.path)): // some file systems ignore case
		if e.Op&(come|written) != 0 {
			w.changed(true)
		}
	case e.Op&come != 0:
		// The file may be a link that leads through this name: Kubernetes makes ..data point to
		// a new folder. Do not wait for further changes: in a busy folder they would delay the
		// reading.
		w.changed(false)
	}
}

// changed starts the timer after which the file is read. If the timer runs already and
// wait is true, it is extended.
func (w *watcher) changed(wait bool) {
	debounce := w.source.o.Debounce
	now := time.Now()
	switch {
	case w.since.IsZero():
		w.since = now
		w.timer.Reset(debounce)
	case wait:
		w.timer.Reset(min(debounce, w.since.Add(10*debounce).Sub(now)))
	}
}

// report reads the file and calls f if it has changed.
func (w *watcher) report() {
	text, err := w.source.load()
	now := state(text, err)
	if now == w.seen {
		return
	}
	w.seen = now
	w.f(w.source.parse(text, err))
}
