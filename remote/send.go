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
	wrote  time.Time // time of the last write
	listen sync.WaitGroup
	gone   chan struct{} // closed once the receiver has closed the connection
}

// maxHeard is how many bytes may arrive from the other side. A receiver sends nothing, so a program that sends more
// is not a receiver.
const maxHeard = 64 << 10

// newLink returns a link for c and starts to read from c. A receiver sends nothing, so the read ends when the
// connection ends.
func newLink(c net.Conn) *link {
	l := &link{Conn: c, began: time.Now(), wrote: time.Now(), gone: make(chan struct{})}
	l.listen.Go(func() {
		defer close(l.gone)
		_, _ = io.Copy(io.Discard, io.LimitReader(c, maxHeard)) // after the copy, the connection is useless
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

// close ends the connection. If ctx is done, it does not send the closing message of TLS, which would wait for a
// receiver that reads nothing.
func (l *link) close(ctx context.Context) {
	stop := context.AfterFunc(ctx, l.abort)
	defer stop()
	_ = l.Close() // an error does not say which entries are lost
	l.listen.Wait()
}

// abort ends the connection without the closing message of TLS.
func (l *link) abort() {
	c := l.Conn
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	_ = c.Close() // it may already be closed
}

// steady has two uses. If a connection has lasted this long, the next connection is made without a pause. If nothing
// was sent for this long, the end of the connection is not an error. Tests change steady.
var steady = 10 * time.Second

// A sendLoop holds the state of Sender.run: the connection and the recent failures.
type sendLoop struct {
	*Sender

	link    *link
	fails   int  // number of failed attempts and short connections in a row
	lost    int  // number of connections that broke after Close
	failing bool // the current failure was already reported
	out     []byte
	starts  []start // for each record in out

	stuck          *chunk // the last tries connections ended before they had sent the record at the offset stuckAt in stuck
	stuckAt, tries int
}

// A start holds, for a record, the offset in the chunk at which it begins and the offset in sendLoop.out at which it
// ends.
type start struct {
	in, end int
	moved   bool
}

// run sends the entries of the queue until Close is called.
func (s *Sender) run() {
	defer close(s.ended)
	c := &sendLoop{Sender: s}
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
	c.disconnect()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Dropped = s.stats.Offered - s.stats.Sent // nothing is sent any more
	s.queue = queue{}
}

// await waits for a chunk to send. After Close, it returns nil once the queue is empty.
func (c *sendLoop) await() *chunk {
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

// onGone handles a connection that the receiver has closed while nothing was being sent. If entries were sent shortly
// before, they may be lost, and the end is an error. Otherwise the receiver has only closed an idle connection.
func (c *sendLoop) onGone() {
	if time.Since(c.link.wrote) < steady {
		if c.o.Token == "" && time.Since(c.link.began) < refusesWithin {
			c.hangUp(errNoToken)
		} else {
			c.hangUp(errGone)
		}
		return
	}
	c.fails, c.failing = 0, false
	c.disconnect()
}

var (
	errGone    = errors.New("the receiver closed the connection")
	errNoToken = fmt.Errorf("%w: if it requires a token, set OTEL_EXPORTER_ENTRACE_TOKEN", errGone)
	errRefused = errors.New("the receiver refused the connection")
)

// send sends a chunk, over several connections if necessary. An error ends run.
func (c *sendLoop) send(chunk *chunk) error {
	n := &c.numbering
	if chunk.trace != n.trace {
		c.disconnect()
		n.begin(chunk.trace, chunk.version)
	}
	for at := 0; at < len(chunk.buf); {
		if c.link != nil && c.link.isGone() {
			c.onGone()
		}
		if n.next > fullAt {
			c.disconnect()
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
	c.stuck = nil // the memory of the chunk will be reused
	return nil
}

// maxTries is the number of connections that may end before they have sent a certain record. After that, the record
// is dropped.
const maxTries = 5

// giveUp counts a connection that ended before it had sent the record at the offset at. After maxTries such
// connections it drops the record, because the receiver seems to refuse it, and the records after it must be sent.
// giveUp returns the offset of the next record to send.
func (c *sendLoop) giveUp(chunk *chunk, at int) int {
	if c.stuck != chunk || c.stuckAt != at {
		c.stuck, c.stuckAt, c.tries = chunk, at, 0
	}
	c.tries++
	if c.tries < maxTries {
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

// disconnect ends the current connection, if any.
func (c *sendLoop) disconnect() {
	if c.link != nil {
		c.link.close(c.ctx)
		c.link = nil
	}
}

// refusalWait is how long a sender waits for the receiver to refuse the connection. Entries sent before a refusal
// are lost.
const refusalWait = 200 * time.Millisecond

// refusesWithin is the longest time after which a receiver refuses a new connection because the token is missing.
const refusesWithin = time.Second

// admitted reports whether the receiver accepts the connection. With a token or TLS, it sends the first bytes of
// the connection and waits. Otherwise it returns true at once, and the first bytes are sent together with the first
// entries.
func (c *sendLoop) admitted() bool {
	if c.o.Token == "" && !c.endpoint.secure {
		return true
	}
	written, err := c.write()
	c.sent(nil, written)
	c.out = c.out[:0]
	if err == nil {
		t := time.NewTimer(refusalWait)
		defer t.Stop()
		select {
		case <-t.C:
			return true
		case <-c.link.gone:
			err = errRefused
			if c.o.Token != "" {
				err = fmt.Errorf("%w: check that the token (OTEL_EXPORTER_ENTRACE_TOKEN) is the token of the receiver", errRefused)
			}
		case <-c.ctx.Done():
			err = c.ctx.Err()
		}
	}
	c.hangUp(err)
	return false
}

// encode encodes the records of buf from the offset at on as entries of the connection, and appends them to c.out.
func (c *sendLoop) encode(buf []byte, at int) {
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

func (c *sendLoop) write() (int, error) {
	l := c.link
	stop := context.AfterFunc(c.ctx, func() { _ = l.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	for written := 0; ; {
		if err := l.SetWriteDeadline(time.Now().Add(c.o.WriteTimeout)); err != nil {
			return written, err
		}
		if err := c.ctx.Err(); err != nil { // the line above may have replaced the deadline that was set when ctx was done
			return written, err
		}
		n, err := l.Write(c.out[written:min(written+4*chunkSize, len(c.out))])
		l.wrote = time.Now()
		written += n
		if err != nil || written == len(c.out) {
			return written, err
		}
	}
}

// sent counts the records that are complete in the first written bytes of c.out. It returns the offset in buf of
// the next record.
func (c *sendLoop) sent(buf []byte, written int) int {
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

// hangUp ends a connection that has failed with err.
func (c *sendLoop) hangUp(err error) {
	if time.Since(c.link.began) >= steady {
		c.fails, c.failing = 0, false
	} else {
		c.fails++
	}
	if c.isClosed() {
		c.lost++
	}
	c.link.abort()
	c.disconnect()
	c.failed(err)
}

// failed stores an error. Of several errors in a row, it reports only the first.
func (c *sendLoop) failed(err error) {
	err = fmt.Errorf("send to %s %s: %w", c.endpoint.network, c.endpoint.address, err)
	c.mu.Lock()
	c.err = err
	c.mu.Unlock()
	if c.failing || c.o.OnError == nil {
		return
	}
	c.failing = true
	defer func() { _ = recover() }() // a panic in OnError must not end the application
	c.o.OnError(err)
}

// connect makes a connection. It tries until it succeeds, but after Close only once. An error ends run.
func (c *sendLoop) connect() error {
	for {
		if c.fails > 0 {
			c.pause()
		}
		if err := c.ctx.Err(); err != nil {
			return err
		}
		last := c.isClosed()
		if last && c.lost > 1 {
			return errGone // connections break again and again, but Close must return
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
		if last { // the receiver will not be available again in time
			return err
		}
	}
}

func (c *sendLoop) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// pause waits before the next attempt. Half of the time is random, so that senders do not all connect at once when
// their receiver is available again. Close ends the pause.
func (c *sendLoop) pause() {
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

func (c *sendLoop) dial() (net.Conn, error) {
	ctx, cancel := context.WithTimeout(c.ctx, dialTimeout)
	defer cancel()
	dial := new(net.Dialer).DialContext
	if c.endpoint.secure {
		dial = (&tls.Dialer{Config: c.o.TLS}).DialContext
	}
	return dial(ctx, c.endpoint.network, c.endpoint.address)
}
