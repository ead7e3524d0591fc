// Package listener has the rules for servers that take records over the network: who may connect, with which
// token, how many clients at once, and which connection ends if one more client comes.
package listener

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// ErrBusy is the error of a connection that ended, or did not begin, because of [Bounds].
var ErrBusy = errors.New("too many connections at once")

// Bounds say how many connections there may be.
type Bounds struct {
	// Connections is how many there may be at once, PerAddress how many of them from one IPv4 address, or from
	// one IPv6 network with a prefix of 64 bits: if it is 0, a quarter, and no bound for this machine.
	Connections, PerAddress int
	// Token says that clients must show something before they are trusted. A client that has not may be in the
	// middle of a request and has to go all the same.
	Token bool
	// Refused is called for a client that gets no room. Without it, such a client waits, unless its address has as many
	// connections as it may.
	Refused func(net.Addr)
}

// addressShares is the part of all connections that one address may have.
const addressShares = 4

// A client that waits looks for room every retryAfter.
const retryAfter = 10 * time.Millisecond

// Share returns how many connections one address may have.
func (b *Bounds) Share() int {
	if b.PerAddress > 0 {
		return min(b.PerAddress, b.Connections)
	}
	return max(b.Connections/addressShares, 1)
}

// New returns a listener that accepts connections of l within bounds. A client that finds no room gets that of the
// connection on which nothing came or went for the longest time. Connections that are not trusted go first. One in
// the middle of a request stays, unless [Bounds].Token says otherwise.
func New(l net.Listener, b Bounds) *Listener {
	return &Listener{Listener: l, bounds: b, conns: make(map[*conn]struct{}), of: make(map[netip.Prefix]int), closed: make(chan struct{})}
}

// A Listener accepts connections within bounds.
type Listener struct {
	net.Listener

	bounds Bounds
	closed chan struct{}
	close  sync.Once

	mu    sync.Mutex
	conns map[*conn]struct{}
	of    map[netip.Prefix]int // how many connections an address has
}

// Close implements net.Listener. It ends an Accept that waits for room.
func (l *Listener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: inner, l: l, from: AddressOf(inner.RemoteAddr(), l.bounds.PerAddress <= 0)}
		c.touch()
		for !l.enter(c) && l.bounds.Refused == nil && !c.full {
			select {
			case <-l.closed:
				return nil, errors.Join(net.ErrClosed, inner.Close())
			case <-time.After(retryAfter):
			}
		}
		if c.entered {
			return c, nil
		}
		_ = inner.Close() // nothing was read from it
		if l.bounds.Refused != nil {
			l.bounds.Refused(inner.RemoteAddr())
		}
	}
}

// enter adds a connection. It reports false if no connection gives way.
func (l *Listener) enter(c *conn) bool {
	l.mu.Lock()
	c.full = c.from.IsValid() && l.of[c.from] >= l.bounds.Share()
	if !c.full && len(l.conns) < l.bounds.Connections {
		l.add(c)
		l.mu.Unlock()
		return true
	}
	var last *conn
	for other := range l.conns {
		if c.full && other.from != c.from || other.holds.Load() || other.busy.Load() && (!l.bounds.Token || other.trusted.Load()) {
			continue
		}
		if last == nil || other.before(last) {
			last = other
		}
	}
	if last != nil {
		l.remove(last)
		l.add(c)
	}
	l.mu.Unlock()
	if last == nil {
		return false
	}
	last.evicted.Store(true)
	_ = last.Close()
	return true
}

func (l *Listener) add(c *conn) {
	l.conns[c] = struct{}{}
	l.of[c.from]++
	c.entered = true
}

func (l *Listener) remove(c *conn) {
	if _, ok := l.conns[c]; !ok {
		return
	}
	delete(l.conns, c)
	if l.of[c.from]--; l.of[c.from] == 0 {
		delete(l.of, c.from)
	}
}

// A conn is a connection that a Listener counts.
type conn struct {
	net.Conn

	l       *Listener
	from    netip.Prefix
	entered bool
	full    bool         // its address has as many as it may
	last    atomic.Int64 // when something came or went last, in nanoseconds since 1970

	trusted, holds, busy, evicted atomic.Bool
}

func (c *conn) touch() { c.last.Store(time.Now().UnixNano()) }

// before reports whether c has to go rather than another connection.
func (c *conn) before(other *conn) bool {
	if c, other := c.trusted.Load(), other.trusted.Load(); c != other {
		return other
	}
	return c.last.Load() < other.last.Load()
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	return n, c.done(n, err)
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	return n, c.done(n, err)
}

func (c *conn) done(n int, err error) error {
	if n > 0 {
		c.touch()
	}
	if err != nil && c.evicted.Load() {
		return ErrBusy
	}
	return err
}

func (c *conn) Close() error {
	c.l.mu.Lock()
	c.l.remove(c)
	c.l.mu.Unlock()
	return c.Conn.Close()
}

// of returns the connection of a Listener that c is, or that TLS runs on, or nil.
func of(c net.Conn) *conn {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	own, _ := c.(*conn)
	return own
}

// Trust says that the client of a connection of a Listener, which TLS may run on, has shown its token or what else
// it must. If it holds, its connection does not end for another client.
func Trust(c net.Conn, holds bool) {
	if c := of(c); c != nil {
		c.trusted.Store(true)
		c.holds.Store(holds)
	}
}

// Busy says whether a connection of a Listener is in the middle of a request.
func Busy(c net.Conn, is bool) {
	if c := of(c); c != nil {
		c.busy.Store(is)
	}
}
