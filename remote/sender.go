package remote

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/recorder"
)

// SenderOptions change how a [Sender] works. The zero value means defaults.
type SenderOptions struct {
	// Token, if set, is shown to the receiver before anything else: 16 to 256
	// bytes. ENTRACE's own programs know no tokens. Without TLS it can be read by
	// who listens on the way.
	Token string
	// TLS is for tls:// endpoints: the authorities to trust, a certificate to
	// show. By default those of the system are trusted and the host's name is
	// verified. The version is 1.3 at least.
	TLS *tls.Config

	// MaxBuffer is how many bytes wait for the network at most, 40 more than it
	// is long for each entry. What comes then is dropped. The default is 8 MiB.
	MaxBuffer int
	// WriteTimeout is how long the receiver may take nothing before the connection
	// is given up. The default is 30 seconds.
	WriteTimeout time.Duration
	// MinBackoff and MaxBackoff are about how long the first pause before another
	// attempt to connect is, and the longest. The defaults are 250 ms and one
	// minute.
	MinBackoff, MaxBackoff time.Duration

	// OnError, if set, is called when sending begins to fail: once, until it works
	// again. It is called by a goroutine of the Sender and may record.
	OnError func(error)
}

const (
	defaultBuffer       = 8 << 20
	defaultWriteTimeout = 30 * time.Second
	defaultMinBackoff   = 250 * time.Millisecond
	defaultMaxBackoff   = time.Minute

	dialTimeout = 10 * time.Second
	// closeTimeout is how long Close waits at most, whatever its context says.
	closeTimeout = 5 * time.Second
	// resourceRoom is how much more than MaxBuffer there may be for resources,
	// without which nothing can be understood.
	resourceRoom = 1 << 20
)

// SenderStats is the account of a [Sender]: Offered is Sent, Dropped and Waiting
// together.
type SenderStats struct {
	Offered uint64 // entries that were handed over
	Sent    uint64 // that the system took, be it that they got lost on the way
	Dropped uint64 // that found no room, or were left at the end
	Waiting uint64

	Moved       uint64 // entries of Sent below another parent than their own, see the package documentation
	Bytes       uint64 // that the system took
	Connections uint64 // that were made
}

// A Sender sends what a recorder records to a receiver, or to ENTRACE: it is a
// [recorder.Tee]. It never makes the recorder wait: what the network does not take
// is buffered, and dropped when there is too much of it. It connects when the
// first entry comes, and again after a pause when the connection is lost; every
// connection is a trace of its own. It is for one recorder.
//
// A Sender is safe for concurrent use.
type Sender struct {
	o        SenderOptions
	endpoint endpoint
	ctx      context.Context // of what runs; done when it must end at once
	cancel   context.CancelFunc
	wake     chan struct{} // something came, or Close was called
	closing  chan struct{}
	ended    chan struct{} // closed when run has returned

	numbering numbering // nodes has its own lock, the rest is of run alone

	mu sync.Mutex

	queue   queue
	trace   uint32
	version format.Version
	stats   SenderStats
	running bool
	closed  bool
	err     error // the last one, of what was lost
}

var _ recorder.Tee = (*Sender)(nil)

// NewSender returns a Sender to an endpoint: tcp://host:port, tls://host:port or
// unix:///path. A nil o means defaults. Nobody needs to close a Sender that was
// given no entry.
func NewSender(target string, o *SenderOptions) (*Sender, error) {
	if o == nil {
		o = &SenderOptions{}
	}
	e, err := parseEndpoint(target)
	if err == nil {
		err = checkToken(o.Token)
	}
	if err != nil {
		return nil, fmt.Errorf("remote: %w", err)
	}
	s := &Sender{o: *o, endpoint: e, wake: make(chan struct{}, 1), closing: make(chan struct{}), ended: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.Begin(format.DefaultVersion)
	if s.o.MaxBuffer <= 0 {
		s.o.MaxBuffer = defaultBuffer
	}
	if s.o.WriteTimeout <= 0 {
		s.o.WriteTimeout = defaultWriteTimeout
	}
	if s.o.MinBackoff <= 0 {
		s.o.MinBackoff = defaultMinBackoff
	}
	if s.o.MaxBackoff <= 0 {
		s.o.MaxBackoff = defaultMaxBackoff
	}
	s.o.MaxBackoff = max(s.o.MaxBackoff, s.o.MinBackoff)
	if e.secure {
		s.o.TLS = tlsConfig(o.TLS)
	}
	return s, nil
}

// tlsConfig returns a copy of c that asks for what is needed.
func tlsConfig(c *tls.Config) *tls.Config {
	if c == nil {
		c = &tls.Config{MinVersion: tls.VersionTLS13}
	}
	c = c.Clone()
	c.MinVersion = max(c.MinVersion, tls.VersionTLS13)
	return c
}

// Begin is called by the recorder for every file that it begins.
func (s *Sender) Begin(v format.Version) {
	if v != format.V1 && v != format.V2 {
		panic("remote: Begin of an unknown version")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trace++
	s.version = v
}

// Take copies entries into the buffer, or drops them when there is no room.
func (s *Sender) Take(entries []recorder.TeeEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Offered += uint64(len(entries))
	for i := range entries {
		e := &entries[i]
		room := s.o.MaxBuffer
		if e.Resource {
			room += resourceRoom
		}
		if s.closed || len(e.Raw) == 0 || s.queue.size+recordHead+len(e.Raw) > room {
			s.drop(e)
			continue
		}
		s.queue.put(e, s.trace, s.version)
	}
	if s.closed || len(entries) == 0 {
		return
	}
	if !s.running {
		s.running = true
		go s.run()
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// drop counts an entry that is not sent, and remembers it for the sake of those
// that come below it.
func (s *Sender) drop(e *recorder.TeeEntry) {
	s.stats.Dropped++
	if s.closed {
		return
	}
	n := &s.numbering.nodes
	n.mu.Lock()
	n.put(key{s.trace, e.ID}, node{parent: e.Parent, ref: e.Ref})
	n.mu.Unlock()
}

// Stats returns the account as it is now.
func (s *Sender) Stats() SenderStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Waiting = st.Offered - st.Sent - st.Dropped
	return st
}

// Close sends what is buffered and ends the connection. It waits until ctx is
// done, and no longer than five seconds; what is not sent by then is dropped and
// counted, and the error says so. It is idempotent; entries that come later are
// dropped.
func (s *Sender) Close(ctx context.Context) error {
	s.mu.Lock()
	first := !s.closed
	if first {
		s.closed = true
		close(s.closing)
		if !s.running {
			close(s.ended)
		}
	}
	s.mu.Unlock()
	if first {
		defer s.cancel()
		limit := time.AfterFunc(closeTimeout, s.cancel)
		defer limit.Stop()
		stop := context.AfterFunc(ctx, s.cancel)
		defer stop()
	}
	if !s.awaitEnd(ctx) {
		return fmt.Errorf("remote: what runs has not ended, OnError waits perhaps: %w", context.DeadlineExceeded)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !first || s.stats.Dropped == 0 {
		return nil
	}
	return s.lost()
}

// awaitEnd waits for the end of run, and a moment longer than it has time for it.
func (s *Sender) awaitEnd(ctx context.Context) bool {
	select {
	case <-s.ended:
		return true
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	t := time.NewTimer(100 * time.Millisecond)
	defer t.Stop()
	select {
	case <-s.ended:
		return true
	case <-t.C:
		return false
	}
}

// lost says how many entries were dropped.
func (s *Sender) lost() error {
	err := fmt.Errorf("remote: %d of %d entries were not sent", s.stats.Dropped, s.stats.Offered)
	if s.err != nil {
		err = fmt.Errorf("%w: %w", err, s.err)
	}
	return err
}
