// Package listener has the rules of servers that receive records over the network: who may connect, which token is
// needed, how many clients may connect at the same time, and which connection is ended to make room for another
// client.
package listener

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// ErrBusy is the error of a connection that was ended or refused because of [Bounds].
var ErrBusy = errors.New("too many connections at once")

// Bounds limit the number of connections.
type Bounds struct {
	// Connections is the maximum number of connections. PerAddress is the maximum number from one IPv4 address, or
	// from one IPv6 network with a prefix of 64 bits. If PerAddress is 0, the maximum is a quarter of Connections,
	// and loopback addresses have no limit.
	Connections, PerAddress int
	// Token says that clients authenticate with a token. The connection of a client that has not authenticated may
	// then be ended even in the middle of a request.
	Token bool
	// Refused, if set, is called for a client that finds no room. If Refused is nil, a client that finds no room
	// waits, except if its address already has the maximum number of connections.
	Refused func(net.Addr)
}

// addressShares is the default ratio of Connections to PerAddress.
const addressShares = 4

// retryAfter is the time after which Accept tries again to find room for a client.
const retryAfter = 10 * time.Millisecond

// Share returns the maximum number of connections from one address.
func (b *Bounds) Share() int {
	if b.PerAddress > 0 {
		return min(b.PerAddress, b.Connections)
	}
	return max(b.Connections/addressShares, 1)
}

// New returns a listener that accepts connections from l within bounds. If a client finds no room, the listener
// ends the connection that was idle longest, first among the connections that are not trusted. It does not end a
// connection in the middle of a request, except as described at [Bounds].Token.
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
	of    map[netip.Prefix]int // number of connections, by address
}

// Close implements net.Listener. It also ends an Accept that waits for room.
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
		_ = inner.Close() // the client has sent nothing that was read
		if l.bounds.Refused != nil {
			l.bounds.Refused(inner.RemoteAddr())
		}
	}
}

// enter adds a connection. If there is no room, it ends another connection. It returns false if it cannot end any
// connection.
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
	l.of[c.from]--
	if l.of[c.from] == 0 {
		delete(l.of, c.from)
	}
}

// A conn is an accepted connection, which its Listener counts.
type conn struct {
	net.Conn

	l       *Listener
	from    netip.Prefix
	entered bool
	full    bool         // its address already has the maximum number of connections
	last    atomic.Int64 // time of the last read or write, in nanoseconds since 1970

	trusted, holds, busy, evicted atomic.Bool
}

func (c *conn) touch() { c.last.Store(time.Now().UnixNano()) }

// before reports whether c should be ended rather than other.
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

// of returns the conn under c, which may be a TLS connection. It returns nil if c is not from a Listener.
func of(c net.Conn) *conn {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	own, _ := c.(*conn)
	return own
}

// Trust records that the client of a connection has authenticated, for example by a token. The connection may be a
// TLS connection over a connection from a Listener. If holds is set, the connection is never ended to make room.
func Trust(c net.Conn, holds bool) {
	if c := of(c); c != nil {
		c.trusted.Store(true)
		c.holds.Store(holds)
	}
}

// Busy records whether a connection is in the middle of a request. The connection is as in Trust.
func Busy(c net.Conn, is bool) {
	if c := of(c); c != nil {
		c.busy.Store(is)
	}
}
