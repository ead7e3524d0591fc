package receivedfiles

import (
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/entrace-go/entrace/internal/file/osfile"
)

// ErrQuota is the error of a trace that was refused or ended because of a [Quota].
var ErrQuota = errors.New("remote: the folder of received traces is full")

// A Quota limits the number and the size of the received traces in a folder, including
// traces of earlier receivers. It is safe for concurrent use.
type Quota struct {
	Dir                string
	MaxBytes, MaxFiles int64 // math.MaxInt64: no limit

	mu sync.Mutex

	bytes, files int64     // in the folder, according to the last scan and later changes
	reserved     int64     // bytes that somebody has reserved and not yet written
	nextScan     time.Time // the earliest time of the next scan
}

// minScanInterval is the least time between two scans of the folder. When the quota is exhausted, a scan finds out
// which files were removed.
const minScanInterval = time.Second

// receivedName matches the file names that a [Names] makes.
var receivedName = regexp.MustCompile(`^([0-9A-Za-z._%~-]+-)?\d{8}T\d{6}\.\d{3}Z-\d{6,}\.(et|iet)$`)

// ReserveFile counts a new file. It returns false, and counts nothing, if the quota does not allow another file.
func (q *Quota) ReserveFile() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.allows(func() bool { return q.files < q.MaxFiles && q.bytes+q.reserved < q.MaxBytes }) {
		return false
	}
	q.files++
	return true
}

// ReserveBytes reserves n bytes, or fewer if the quota does not allow n. It returns how many it has reserved.
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

// Wrote ends a reservation. The parameter written is the number of the reserved bytes that were written.
func (q *Quota) Wrote(reserved, written int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.reserved -= reserved
	q.bytes += written
}

// Adjust adds to the counts. It never makes them negative: a scan may have counted a removal already.
func (q *Quota) Adjust(files, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.files = max(q.files+files, 0)
	q.bytes = max(q.bytes+bytes, 0)
}

// Exceeded returns an error with the limit that was reached.
func (q *Quota) Exceeded() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.files >= q.MaxFiles {
		return fmt.Errorf("%w: %d files, at most %d (--max-files)", ErrQuota, q.files, q.MaxFiles)
	}
	return fmt.Errorf("%w: %d bytes, at most %d (--max-bytes)", ErrQuota, q.bytes, q.MaxBytes)
}

// allows returns the result of the function enough. If this is false, allows scans the folder and calls enough
// again, except shortly after another scan. The caller holds q.mu.
func (q *Quota) allows(enough func() bool) bool {
	if enough() {
		return true
	}
	if time.Now().Before(q.nextScan) {
		return false
	}
	_ = q.scan() // after an error the counts are unchanged
	return enough()
}

// Rescan counts the received traces in the folder. After an error, the counts are unchanged.
func (q *Quota) Rescan() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.scan()
}

// scan counts the received traces in the folder. The caller holds q.mu.
func (q *Quota) scan() error {
	began := time.Now()
	defer func() { q.nextScan = time.Now().Add(max(minScanInterval, 20*time.Since(began))) }()
	list, err := osfile.Files(q.Dir, IsReceived)
	if err != nil {
		return err
	}
	q.files, q.bytes = int64(len(list)), 0
	for _, fi := range list {
		q.bytes += fi.Size()
	}
	return nil
}

// Full reports whether the quota allows no more bytes.
func (q *Quota) Full() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.allows(func() bool { return q.bytes+q.reserved < q.MaxBytes })
}

// IsReceived reports whether name may be the name of a file from [Names].
func IsReceived(name string) bool { return receivedName.MatchString(name) }
