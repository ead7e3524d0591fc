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

// A share is something of which there is so much for all senders, and so much for
// those of one address. It is safe for concurrent use.
type share struct {
	max, each int64

	mu sync.Mutex

	used int64
	by   map[netip.Prefix]int64
}

// take takes n for a sender, whose address may be the zero value for none, and
// reports whether there was so much.
func (s *share) take(a netip.Prefix, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > s.max-s.used || a.IsValid() && n > s.each-s.by[a] {
		return false
	}
	s.used += n
	if a.IsValid() {
		if s.by == nil {
			s.by = make(map[netip.Prefix]int64)
		}
		s.by[a] += n
	}
	return true
}

// give returns what was taken.
func (s *share) give(a netip.Prefix, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used -= n
	if !a.IsValid() {
		return
	}
	if s.by[a] -= n; s.by[a] == 0 {
		delete(s.by, a)
	}
}

// addressOf returns what counts as the address of a sender, the zero value if it has
// none or if it is one of this machine and free says that these do not count: of an
// IPv6 address the first half, as one machine may have all of the rest.
func addressOf(a net.Addr, free bool) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip, _ := netip.AddrFromSlice(tcp.IP)
	ip = ip.Unmap()
	if free && ip.IsLoopback() {
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

// A quota bounds the received traces in a folder, those of earlier receivers
// included. It is safe for concurrent use.
type quota struct {
	dir                string
	maxBytes, maxFiles int64

	mu sync.Mutex

	bytes, files int64     // as far as is known
	granted      int64     // bytes that may be written and are not yet
	next         time.Time // the folder is not looked at before
}

// lookAgain is after what time a quota that is used up looks whether somebody has
// removed files.
const lookAgain = time.Second

// receivedName matches the names that names makes.
var receivedName = regexp.MustCompile(`^\d{8}T\d{6}\.\d{3}Z-\d{6,}\.(et|iet)$`)

// takeFile reports whether there may be another file.
func (q *quota) takeFile() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.room(func() bool { return q.files < q.maxFiles && q.bytes+q.granted < q.maxBytes }) {
		return false
	}
	q.files++
	return true
}

// full says which bound was reached.
func (q *quota) full() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.files >= q.maxFiles {
		return fmt.Errorf("%w: there are %d, and there may be %d", ErrQuota, q.files, q.maxFiles)
	}
	return fmt.Errorf("%w: they have %d bytes, and may have %d", ErrQuota, q.bytes, q.maxBytes)
}

// takeBytes returns how many of n bytes may be written.
func (q *quota) takeBytes(n int64) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	left := func() int64 { return q.maxBytes - q.bytes - q.granted }
	_ = q.room(func() bool { return n <= left() }) // a part will do, too
	n = max(min(n, left()), 0)
	q.granted += n
	return n
}

// wrote says how many of the bytes that takeBytes granted are in the file.
func (q *quota) wrote(granted, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.granted -= granted
	q.bytes += bytes
}

// changed says that there are more files and bytes than were known, or less.
func (q *quota) changed(files, bytes int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.files = max(q.files+files, 0) // another look may have come before
	q.bytes = max(q.bytes+bytes, 0)
}

// room reports whether there is enough, after another look at the folder if need be.
func (q *quota) room(enough func() bool) bool {
	if !enough() && !time.Now().Before(q.next) {
		_ = q.look() // what is known stays
	}
	return enough()
}

// lookNow is look for those who do not hold the lock.
func (q *quota) lookNow() {
	q.mu.Lock()
	defer q.mu.Unlock()
	_ = q.look() // what is known stays
}

// look counts what is in the folder. The lock is held.
func (q *quota) look() error {
	began := time.Now()
	defer func() { q.next = time.Now().Add(max(lookAgain, 20*time.Since(began))) }()
	list, err := os.ReadDir(q.dir)
	if err != nil {
		return err
	}
	var files, bytes int64
	for _, e := range list {
		if !receivedName.MatchString(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		if fi, err := e.Info(); err == nil { // else it is gone
			files++
			bytes += fi.Size()
		}
	}
	q.files, q.bytes = files, bytes
	return nil
}

// bound returns what an option says: its default for 0, no bound if it is negative.
func bound[T int | int64](option, byDefault T) int64 {
	switch {
	case option < 0:
		return math.MaxInt64
	case option == 0:
		return int64(byDefault)
	}
	return int64(option)
}
