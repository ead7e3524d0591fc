package remote

import (
	"context"
	"crypto/tls"
	"fmt"
	"sync"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel/listener"
	"github.com/entrace-go/entrace/recorder"
)

// SenderOptions configure a [Sender]. The zero value means defaults.
type SenderOptions struct {
	// Token, if set, is sent to the receiver before everything else. It has 16 to 256 bytes. ENTRACE's own
	// programs do not support tokens. Without TLS, others on the network can read the token.
	Token string
	// TLS configures tls:// endpoints: the trusted authorities, and the certificate of this sender. By default the
	// authorities of the system are trusted and the host name is verified. The version is 1.3 or later.
	TLS *tls.Config

	// MaxBuffer is the maximum number of bytes that wait to be sent. Each entry counts as 40 bytes more than its
	// size. Entries that do not fit are dropped. The default is 8 MiB.
	MaxBuffer int
	// WriteTimeout is the time limit for a write. When it is exceeded, the connection is closed and another
	// connection is made. The default is 30 seconds.
	WriteTimeout time.Duration
	// MinBackoff and MaxBackoff are the approximate lengths of the shortest and the longest pause before another
	// attempt to connect. The defaults are 250 ms and one minute.
	MinBackoff, MaxBackoff time.Duration

	// OnError, if set, is called when sending begins to fail. It is called again only after sending has succeeded and
	// then fails again. A goroutine of the Sender calls it. It may use the recorder.
	OnError func(error)
}

const (
	defaultBuffer       = 8 << 20
	defaultWriteTimeout = 30 * time.Second
	defaultMinBackoff   = 250 * time.Millisecond
	defaultMaxBackoff   = time.Minute

	dialTimeout = 10 * time.Second
	// closeTimeout is the maximum time that Close waits, even if its context allows more time.
	closeTimeout = 5 * time.Second
	// resourceRoom is how many bytes resources may use beyond MaxBuffer. Other entries are useless without their
	// resource.
	resourceRoom = 1 << 20
)

// SenderStats holds the counts of a [Sender]. Offered is the sum of Sent, Dropped and Waiting.
type SenderStats struct {
	Offered uint64 // entries that the recorder passed to the Sender
	Sent    uint64 // entries that were written to a connection; they may still be lost
	Dropped uint64 // entries that did not fit into the buffer, or were still in it at the end
	Waiting uint64 // entries in the buffer

	Moved       uint64 // entries that were sent below another entry than their parent, see the package documentation
	Bytes       uint64 // bytes written to connections
	Connections uint64 // number of connections so far
}

// A Sender is a [recorder.Tee] that sends the entries of a recorder to a [Receiver], or to ENTRACE. It never makes
// the recorder wait. Entries wait in a buffer until they can be sent, and are dropped if the buffer is full. The
// Sender connects when the first entry arrives. If the connection breaks, it connects again after a pause. Every
// connection is a separate trace. A Sender serves only one recorder.
//
// A Sender is safe for concurrent use.
type Sender struct {
	o        SenderOptions
	endpoint endpoint
	ctx      context.Context // done when run must return at once
	cancel   context.CancelFunc
	wake     chan struct{} // has an element if entries were added
	closing  chan struct{}
	ended    chan struct{} // closed when run has returned

	numbering numbering // nodes has its own lock; only run uses the rest

	mu sync.Mutex

	queue   queue
	trace   uint32
	version format.Version
	stats   SenderStats
	running bool
	closed  bool
	err     error // the last error; Close reports it as the reason for lost entries
}

var _ recorder.Tee = (*Sender)(nil)

// NewSender returns a Sender that sends to the endpoint target: tcp://host:port, tls://host:port or unix:///path. A
// nil o means defaults. A Sender that has got no entries need not be closed.
func NewSender(target string, o *SenderOptions) (*Sender, error) {
	if o == nil {
		o = &SenderOptions{}
	}
	e, err := parseEndpoint(target)
	if err == nil {
		err = listener.CheckToken(o.Token)
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
		s.o.TLS = listener.Secure(o.TLS)
	}
	return s, nil
}

// Begin implements [recorder.Tee]. The recorder calls it for every new file.
func (s *Sender) Begin(v format.Version) {
	if v != format.V1 && v != format.V2 {
		panic("remote: Begin of an unknown version")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.trace++
	s.version = v
}

// Take implements [recorder.Tee]. It copies entries into the buffer and drops entries that do not fit.
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

// drop counts an entry that is dropped. It also remembers the entry, so that its children can be sent below an
// ancestor.
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

// Stats returns the current counts.
func (s *Sender) Stats() SenderStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Waiting = st.Offered - st.Sent - st.Dropped
	return st
}

// Close sends the buffered entries and ends the connection. It waits until ctx is done, but at most five seconds.
// Entries that are not sent at the end of this time are dropped and counted. The error has the number of all entries
// that the Sender has dropped. Close may be called several times. Entries that arrive after Close are dropped.
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
		return fmt.Errorf("remote: the sender has not stopped, perhaps because OnError blocks: %w", context.DeadlineExceeded)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !first || s.stats.Dropped == 0 {
		return nil
	}
	err := fmt.Errorf("remote: %d of %d entries were not sent", s.stats.Dropped, s.stats.Offered)
	if s.err != nil {
		err = fmt.Errorf("%w: %w", err, s.err)
	}
	return err
}

// awaitEnd waits until run has ended, and reports whether it has. It waits slightly longer than run may need.
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
