package receive

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/receivedfiles"
	"github.com/entrace-go/entrace/internal/file/retain"
	"github.com/entrace-go/entrace/internal/file/tracename"
)

// full returns an error if the folder has no room for more records. In this case it also tries to make room for later
// records.
func (f *folder) full() error {
	if !f.quota.Full() {
		return nil
	}
	f.prune()
	if !f.quota.Full() {
		return nil
	}
	f.finishOne()
	return fmt.Errorf("%w: %w", ErrFull, f.quota.Exceeded())
}

// prune removes the oldest finished traces until the total is at most KeepBytes.
func (f *folder) prune() {
	if f.o.KeepBytes == 0 {
		return
	}
	f.pruning.Lock() // two concurrent calls would remove too many files
	defer f.pruning.Unlock()
	finished := func(name string) bool { return receivedfiles.IsReceived(name) && strings.HasSuffix(name, tracename.ET) }
	list, _ := osfile.Files(f.o.Dir, finished) // after an error, the next call tries again
	var files []retain.File
	for _, fi := range list {
		files = append(files, retain.File{Path: filepath.Join(f.o.Dir, fi.Name()), Named: fi.ModTime(), Modified: fi.ModTime(), Size: fi.Size()})
	}
	f.ended.Prune(files, retain.Keep{Bytes: f.o.KeepBytes}, time.Now(), func(x *retain.File) bool {
		gone := os.Remove(x.Path) == nil
		if gone {
			f.quota.Adjust(-1, -x.Size)
		}
		return gone
	})
}

// finishOne finishes the suspended file that was idle longest. Without KeepBytes it does nothing, because without
// KeepBytes finished files are never removed.
func (f *folder) finishOne() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, idle := f.leastRecent(true); idle != nil && f.o.KeepBytes > 0 {
		f.remove(idle)
	}
}

// count updates the size of a file in the quota.
func (f *folder) count(x *file) {
	bytes := x.rec.Stats().Bytes
	f.mu.Lock()
	more := bytes - x.bytes
	x.bytes = bytes
	f.mu.Unlock()
	f.quota.Adjust(0, more)
}
