package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// A link is a connection of a Sender.
type link struct {
	net.Conn

	began  time.Time
	wrote  time.Time // when something was last sent
	listen sync.WaitGroup
	gone   chan struct{} // closed when the other side has ended it
}

// maxHeard is how much a receiver may say before it is taken for something else.
const maxHeard = 64 << 10

// newLink begins to listen on c: a receiver says nothing, so that whatever comes
// is the end.
func newLink(c net.Conn) *link {
	l := &link{Conn: c, began: time.Now(), wrote: time.Now(), gone: make(chan struct{})}
	l.listen.Go(func() {
		defer close(l.gone)
		_, _ = io.Copy(io.Discard, io.LimitReader(c, maxHeard)) // why it ends does not matter
	})
	return l
}

func (l *link) isGone() bool {
	select {
	case <-l.gone:
		return true
	default:
		return false
	}
}

// close ends the connection, at once when ctx is done: the farewell of TLS waits
// for a receiver that takes nothing.
func (l *link) close(ctx context.Context) {
	stop := context.AfterFunc(ctx, l.drop)
	defer stop()
	_ = l.Close() // what is lost with it cannot be told
	l.listen.Wait()
}

// drop ends the connection without a farewell.
func (l *link) drop() {
	c := l.Conn
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	_ = c.Close() // it may be closed already
}

// steady is how long a connection must last for the next one to be made at once, and how
// long it must be idle for its end to be no error. Tests change it.
var steady = 10 * time.Second

// A courier has the state of run.
type courier struct {
	*Sender

	link    *link
	fails   int  // attempts and short connections in a row
	lost    int  // connections that were lost after Close
	failing bool // and that was reported
	out     []byte
	starts  []start // of the records in out

	stuck          *chunk // whose record at stuckAt was not sent by so many connections
	stuckAt, tries int
}

// A start is where a record begins in the chunk, and where it ends in what is
// written of it.
type start struct {
	in, end int
	moved   bool
}

// run sends what comes until Close.
func (s *Sender) run() {
	defer close(s.ended)
	c := &courier{Sender: s}
	for {
		chunk := c.await()
		if chunk == nil {
			break
		}
		err := c.send(chunk)
		s.mu.Lock()
		s.queue.done(chunk)
		s.mu.Unlock()
		if err != nil {
			break
		}
	}
	c.leave()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Dropped = s.stats.Offered - s.stats.Sent // nothing comes any more
	s.queue = queue{}
}

// await returns what is to be sent next, nil when that was all.
func (c *courier) await() *chunk {
	for {
		c.mu.Lock()
		chunk, closed := c.queue.take(), c.closed
		c.mu.Unlock()
		switch {
		case chunk != nil:
			return chunk
		case closed:
			return nil
		}
		var gone chan struct{}
		if c.link != nil {
			gone = c.link.gone
		}
		select {
		case <-c.wake:
		case <-c.closing:
		case <-gone:
			c.onGone()
		}
	}
}

// onGone handles a connection that the receiver ended while nothing was being sent. That
// is an error if something was sent shortly before, which may be lost. Otherwise the
// receiver only ended an idle connection.
func (c *courier) onGone() {
	if time.Since(c.link.wrote) < steady {
		if c.o.Token == "" {
			c.hangUp(errNoToken)
		} else {
			c.hangUp(errGone)
		}
		return
	}
	c.fails, c.failing = 0, false
	c.leave()
}

var (
	errGone    = errors.New("the receiver has ended the connection")
	errNoToken = fmt.Errorf("%w: does it want a token, OTEL_EXPORTER_ENTRACE_TOKEN?", errGone)
	errRefused = errors.New("the receiver has refused the connection")
)

// send sends a chunk, over as many connections as that takes. An error is final.
func (c *courier) send(chunk *chunk) error {
	n := &c.numbering
	if chunk.trace != n.trace {
		c.leave()
		n.begin(chunk.trace, chunk.version)
	}
	for at := 0; at < len(chunk.buf); {
		if c.link != nil && c.link.isGone() {
			c.onGone()
		}
		if n.next > fullAt {
			c.leave()
		}
		c.out, c.starts = c.out[:0], c.starts[:0]
		if c.link == nil {
			if err := c.connect(); err != nil {
				return err
			}
			c.out = n.connect(appendPreface(c.out, c.o.Token))
			if !c.admitted() {
				continue
			}
		}
		c.encode(chunk.buf, at)
		written, err := c.write()
		at = c.sent(chunk.buf, written)
		if err != nil {
			c.hangUp(err)
			if at < len(chunk.buf) && written > 0 {
				at = c.giveUp(chunk, at)
			}
		}
		if cap(c.out) > 4*chunkSize {
			c.out = nil
		}
	}
	c.stuck = nil // the memory of chunk is used again
	return nil
}

// maxTries is how many connections may end before the same record is sent.
const maxTries = 5

// giveUp drops the record at at when it came to be the first one again and again:
// the receiver does not want it, and what is behind it must not wait for ever.
func (c *courier) giveUp(chunk *chunk, at int) int {
	if c.stuck != chunk || c.stuckAt != at {
		c.stuck, c.stuckAt, c.tries = chunk, at, 0
	}
	if c.tries++; c.tries < maxTries {
		return at
	}
	c.stuck = nil
	r, rest := next(chunk.buf[at:])
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Dropped++
	n := &c.numbering
	n.nodes.mu.Lock()
	n.nodes.put(key{n.trace, r.id}, node{parent: r.parent, ref: r.ref})
	n.nodes.mu.Unlock()
	return len(chunk.buf) - len(rest)
}

// leave ends the connection if there is one.
func (c *courier) leave() {
	if c.link != nil {
		c.link.close(c.ctx)
		c.link = nil
	}
}

// settle is how long a receiver that may refuse a sender has time to do so, before
// it is given entries that would be lost.
const settle = 200 * time.Millisecond

// admitted reports whether the receiver keeps the connection. It sends the
// beginning then; to one that asks for nothing that goes with the first entries.
func (c *courier) admitted() bool {
	if c.o.Token == "" && !c.endpoint.secure {
		return true
	}
	written, err := c.write()
	c.sent(nil, written)
	c.out = c.out[:0]
	if err == nil {
		t := time.NewTimer(settle)
		defer t.Stop()
		select {
		case <-t.C:
			return true
		case <-c.link.gone:
			err = errRefused
			if c.o.Token != "" {
				err = fmt.Errorf("%w: is the token, of OTEL_EXPORTER_ENTRACE_TOKEN for one, that of the receiver?", errRefused)
			}
		case <-c.ctx.Done():
			err = c.ctx.Err()
		}
	}
	c.hangUp(err)
	return false
}

// encode appends the records of buf from at on to what is to be written.
func (c *courier) encode(buf []byte, at int) {
	n := &c.numbering
	n.nodes.mu.Lock()
	defer n.nodes.mu.Unlock()
	for rest := buf[at:]; len(rest) > 0; {
		in := len(buf) - len(rest)
		var r record
		r, rest = next(rest)
		moved := n.moved
		c.out = n.add(c.out, &r)
		c.starts = append(c.starts, start{in, len(c.out), n.moved > moved})
	}
}

func (c *courier) write() (int, error) {
	l := c.link
	stop := context.AfterFunc(c.ctx, func() { _ = l.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	for written := 0; ; {
		if err := l.SetWriteDeadline(time.Now().Add(c.o.WriteTimeout)); err != nil {
			return written, err
		}
		if err := c.ctx.Err(); err != nil { // its deadline may have been set just before
			return written, err
		}
		n, err := l.Write(c.out[written:min(written+4*chunkSize, len(c.out))])
		l.wrote = time.Now()
		if written += n; err != nil || written == len(c.out) {
			return written, err
		}
	}
}

// sent counts the records that are wholly in the first bytes that were written
// and returns where the others begin.
func (c *courier) sent(buf []byte, written int) int {
	k, moved := 0, uint64(0)
	for k < len(c.starts) && c.starts[k].end <= written {
		if c.starts[k].moved {
			moved++
		}
		k++
	}
	c.mu.Lock()
	c.stats.Sent += uint64(k)
	c.stats.Bytes += uint64(written)
	c.stats.Moved += moved
	c.mu.Unlock()
	if k < len(c.starts) {
		return c.starts[k].in
	}
	return len(buf)
}

// hangUp ends a connection that is of no use any more.
func (c *courier) hangUp(err error) {
	if time.Since(c.link.began) >= steady {
		c.fails, c.failing = 0, false
	} else {
		c.fails++
	}
	if c.isClosed() {
		c.lost++
	}
	c.link.drop()
	c.leave()
	c.failed(err)
}

// failed notes an error, and reports the first one of a row.
func (c *courier) failed(err error) {
	err = fmt.Errorf("send to %s %s: %w", c.endpoint.network, c.endpoint.address, err)
	c.mu.Lock()
	c.err = err
	c.mu.Unlock()
	if c.failing || c.o.OnError == nil {
		return
	}
	c.failing = true
	defer func() { _ = recover() }() // it must not take the application along
	c.o.OnError(err)
}

// connect makes a connection. It tries until it has one; after Close, once. Its
// errors are final.
func (c *courier) connect() error {
	for {
		if c.fails > 0 {
			c.pause()
		}
		if err := c.ctx.Err(); err != nil {
			return err
		}
		last := c.isClosed()
		if last && c.lost > 1 {
			return errGone // time and again, so that it will not end
		}
		conn, err := c.dial()
		if err == nil {
			c.link = newLink(conn)
			c.mu.Lock()
			c.stats.Connections++
			c.mu.Unlock()
			return nil
		}
		c.fails++
		c.failed(err)
		if last { // what is away now will not be back in time
			return err
		}
	}
}

func (c *courier) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// pause waits before another attempt, half of the time at random, so that not all
// senders of a receiver that was away come back at once. Close ends it.
func (c *courier) pause() {
	d := c.o.MinBackoff
	for i := 1; i < c.fails && d < c.o.MaxBackoff; i++ {
		d *= 2
	}
	d = min(d, c.o.MaxBackoff)
	d = d/2 + rand.N(d/2+1) //nolint:gosec // not a secret
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.closing:
	}
}

func (c *courier) dial() (net.Conn, error) {
	ctx, cancel := context.WithTimeout(c.ctx, dialTimeout)
	defer cancel()
	if c.endpoint.secure {
		d := tls.Dialer{Config: c.o.TLS}
		return d.DialContext(ctx, c.endpoint.network, c.endpoint.address)
	}
	var d net.Dialer
	return d.DialContext(ctx, c.endpoint.network, c.endpoint.address)
}
