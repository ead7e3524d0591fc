package remote

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"regexp"
	"sync"
	"time"
)

// A budget is an amount that all senders share, of which the senders of one address
// may use only a part. It is safe for concurrent use.
type budget struct {
	max        int64 // for all senders
	perAddress int64

	mu sync.Mutex

	used   int64
	usedBy map[netip.Prefix]int64
}

// reserve reserves n for a sender and reports whether that much was left. The zero
// address has no limit of its own.
func (b *budget) reserve(address netip.Prefix, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.max-b.used || address.IsValid() && n > b.perAddress-b.usedBy[address] {
		return false
	}
	b.used += n
	if address.IsValid() {
		if b.usedBy == nil {
			b.usedBy = make(map[netip.Prefix]int64)
		}
		b.usedBy[address] += n
	}
	return true
}

// release returns an amount that was reserved.
func (b *budget) release(address netip.Prefix, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	if !address.IsValid() {
		return
	}
	if b.usedBy[address] -= n; b.usedBy[address] == 0 {
		delete(b.usedBy, address)
	}
}

// addressOf returns the address whose limits apply to a sender. For IPv6 this is the
// first half, because one machine may use all of the other half. It is the zero value
// for a unix socket, and for a loopback address if exemptLoopback is set.
func addressOf(a net.Addr, exemptLoopback bool) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip, _ := netip.AddrFromSlice(tcp.IP)
	ip = ip.Unmap()
	if exemptLoopback && ip.IsLoopback() {
		return netip.Prefix{}
	}
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	p, err := ip.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// A quota limits the number and the size of the received traces in a folder, including
// those of earlier receivers. It is safe for concurrent use.
type quota struct {
	dir                string
	maxBytes, maxFiles int64

	mu sync.Mutex

	bytes, files int64     // in the folder, as of the last scan and what happened since
	reserved     int64     // bytes that are about to be written
	nextScan     time.Time // not before then
}

// minScanInterval is how often an exhausted quota scans the folder for files that
// somebody removed.
const minScanInterval = time.Second

// receivedName matches the file names that type names makes.
var receivedName = regexp.MustCompile(`^([0-9A-Za-z._%~-]+-)?\d{8}T\d{6}\.\d{3}Z-\d{6,}\.(et|iet)$`)

// reserveFile counts a new file and reports whether the quota allows it.
func (q *quota) reserveFile() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.allows(func() bool { return q.files < q.maxFiles && q.bytes+q.reserved < q.maxBytes }) {
		return false
	}
	q.files++
	return true
}

// reserveBytes reserves up to n bytes and returns how many.
func (q *quota) reserveBytes(n int64) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	left := func() int64 { return q.maxBytes - q.bytes - q.reserved }
	if !q.allows(func() bool { return n <= left() }) {
		n = max(left(), 0)
	}
	q.reserved += n
	return n
}

// wrote ends a reservation of which so many bytes were written.
func (q *quota) wrote(reserved, written int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.reserved -= reserved
	q.bytes += written
}

// adjust adds to the counts. They stay above zero, because a scan may already have
// counted a removal.
func (q *quota) adjust(files, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.files = max(q.files+files, 0)
	q.bytes = max(q.bytes+bytes, 0)
}

// exceeded returns an error that names the limit that was reached.
func (q *quota) exceeded() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.files >= q.maxFiles {
		return fmt.Errorf("%w: %d files, at most %d", ErrQuota, q.files, q.maxFiles)
	}
	return fmt.Errorf("%w: %d bytes, at most %d", ErrQuota, q.bytes, q.maxBytes)
}

// allows returns enough(). If that is false, it scans the folder and asks again. The
// caller holds the lock.
func (q *quota) allows(enough func() bool) bool {
	if enough() {
		return true
	}
	if time.Now().Before(q.nextScan) {
		return false
	}
	_ = q.scan() // on an error the counts stay
	return enough()
}

// rescan is scan for callers that do not hold the lock.
func (q *quota) rescan() {
	q.mu.Lock()
	defer q.mu.Unlock()
	_ = q.scan() // on an error the counts stay
}

// scan counts the received traces in the folder. The caller holds the lock.
func (q *quota) scan() error {
	began := time.Now()
	defer func() { q.nextScan = time.Now().Add(max(minScanInterval, 20*time.Since(began))) }()
	list, err := os.ReadDir(q.dir)
	if err != nil {
		return err
	}
	var files, bytes int64
	for _, e := range list {
		if !receivedName.MatchString(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		if fi, err := e.Info(); err == nil { // otherwise it was removed meanwhile
			files++
			bytes += fi.Size()
		}
	}
	q.files, q.bytes = files, bytes
	return nil
}

// limitOf returns the limit that an option sets: byDefault for 0, none if it is
// negative.
func limitOf[T int | int64](option, byDefault T) int64 {
	switch {
	case option < 0:
		return math.MaxInt64
	case option == 0:
		return int64(byDefault)
	}
	return int64(option)
}
