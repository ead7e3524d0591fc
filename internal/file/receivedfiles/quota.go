package receivedfiles

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"sync"
	"time"
)

// ErrQuota is the error of a trace that a [Quota] ended or refused.
var ErrQuota = errors.New("remote: the received traces in the folder have reached a limit")

// A Quota limits the number and the size of the received traces in a folder, including
// traces of earlier receivers. It is safe for concurrent use.
type Quota struct {
	Dir                string
	MaxBytes, MaxFiles int64 // math.MaxInt64: no limit

	mu sync.Mutex

	bytes, files int64     // in the folder, according to the last scan and the changes since then
	reserved     int64     // bytes that are about to be written
	nextScan     time.Time // the earliest time of the next scan
}

// minScanInterval is how often an exhausted quota scans the folder for files that
// somebody removed.
const minScanInterval = time.Second

// receivedName matches the file names that a [Names] makes.
var receivedName = regexp.MustCompile(`^([0-9A-Za-z._%~-]+-)?\d{8}T\d{6}\.\d{3}Z-\d{6,}\.(et|iet)$`)

// ReserveFile counts a new file and reports whether the quota allows it.
func (q *Quota) ReserveFile() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.allows(func() bool { return q.files < q.MaxFiles && q.bytes+q.reserved < q.MaxBytes }) {
		return false
	}
	q.files++
	return true
}

// ReserveBytes reserves up to n bytes and returns how many it has reserved.
func (q *Quota) ReserveBytes(n int64) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	left := func() int64 { return q.MaxBytes - q.bytes - q.reserved }
	if !q.allows(func() bool { return n <= left() }) {
		n = max(left(), 0)
	}
	q.reserved += n
	return n
}

// Wrote ends a reservation. written is how many of the reserved bytes were written.
func (q *Quota) Wrote(reserved, written int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.reserved -= reserved
	q.bytes += written
}

// Adjust adds to the counts. The counts do not become negative, even if a scan has already
// counted a removal.
func (q *Quota) Adjust(files, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.files = max(q.files+files, 0)
	q.bytes = max(q.bytes+bytes, 0)
}

// Exceeded returns an error that names the limit that was reached.
func (q *Quota) Exceeded() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.files >= q.MaxFiles {
		return fmt.Errorf("%w: %d files, at most %d", ErrQuota, q.files, q.MaxFiles)
	}
	return fmt.Errorf("%w: %d bytes, at most %d", ErrQuota, q.bytes, q.MaxBytes)
}

// allows returns the result of enough. If the result is false, allows scans the folder and calls
// enough again. The caller holds q.mu.
func (q *Quota) allows(enough func() bool) bool {
	if enough() {
		return true
	}
	if time.Now().Before(q.nextScan) {
		return false
	}
	_ = q.scan() // on an error the counts stay unchanged
	return enough()
}

// Rescan counts the received traces in the folder. On an error the counts stay unchanged.
func (q *Quota) Rescan() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.scan()
}

// scan counts the received traces in the folder. The caller holds q.mu.
func (q *Quota) scan() error {
	began := time.Now()
	defer func() { q.nextScan = time.Now().Add(max(minScanInterval, 20*time.Since(began))) }()
	list, err := os.ReadDir(q.Dir)
	if err != nil {
		return err
	}
	var files, bytes int64
	for _, e := range list {
		if !receivedName.MatchString(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		if fi, err := e.Info(); err == nil { // otherwise the file was removed in the meantime
			files++
			bytes += fi.Size()
		}
	}
	q.files, q.bytes = files, bytes
	return nil
}

// Full reports whether no more bytes may be written.
func (q *Quota) Full() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.allows(func() bool { return q.bytes+q.reserved < q.MaxBytes })
}

// IsReceived reports whether name is the name of a file that [Names] made.
func IsReceived(name string) bool { return receivedName.MatchString(name) }
