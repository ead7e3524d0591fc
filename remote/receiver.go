package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/receivedfiles"
	"github.com/entrace-go/entrace/internal/otel/listener"
)

// A Receiver receives traces from the senders of this package and of ENTRACE. It writes a separate file for each
// connection, with exactly the entries that were sent. Fields must not change while Serve runs.
type Receiver struct {
	// Dir is the folder for the files. The package documentation describes their names. Only the user can read the
	// files.
	Dir string
	// Token, if set, is the token that every sender must send. It has 16 to 256 bytes.
	Token string
	// TLS, if set, encrypts every connection, with version 1.3 or later. TLS alone does not restrict who may send. To
	// restrict senders, set Token, or require a certificate from every sender: set ClientCAs and
	// tls.RequireAndVerifyClientCert.
	TLS *tls.Config

	// MaxConnections is the maximum number of simultaneous senders. Further senders are refused. The default is
	// 64.
	MaxConnections int
	// MaxPerAddress is the maximum number of senders from one IPv4 address, or from one IPv6 network with a prefix
	// of 64 bits. The default is a quarter of MaxConnections; loopback addresses then have no limit. It never
	// applies to unix sockets.
	MaxPerAddress int
	// MaxBuffer is the maximum memory in bytes for incomplete entries, in addition to 64 KiB for each sender. An
	// entry uses up to 1.5 times its size. All senders at one address get the same share of MaxBuffer as of
	// MaxConnections, but at least enough for one entry. If there is no room for an entry, the connection ends. The
	// default is 128 MiB.
	MaxBuffer int64
	// MaxBytes and MaxFiles limit the total size in bytes and the number of the received traces in Dir, including
	// the traces of earlier receivers. When a limit is reached, traces that are being received end and new senders
	// are refused, until somebody removes files. An ET is larger than its IET by about 12 bytes for each entry, and
	// both files exist while the ET is made. The defaults are 10 GiB and 100,000; a negative number means no limit.
	MaxBytes int64
	MaxFiles int
	// MaxEntrySize is the maximum size of an entry in bytes. It can be at most [format.DefaultMaxEntrySize]. The
	// default is 16 MiB, which is twice the default buffer of a [Sender].
	MaxEntrySize int
	// FrameTimeout is the time limit for each mebibyte of an entry, from the first byte of the entry on. The TLS
	// handshake, the token and the magic together also have this time limit, but at most ten seconds. The default is
	// 30 seconds.
	FrameTimeout time.Duration
	// IdleTimeout is the time after which a connection that receives nothing is ended. A [Sender] connects again when
	// it has entries to send. The default is 10 minutes; a negative duration means no limit.
	IdleTimeout time.Duration

	// OnBegun, if set, is called when the file of a connection exists. Only Path and Sender of the argument are
	// set. Several goroutines may call OnBegun at the same time.
	OnBegun func(Received)
	// OnReceived, if set, is called once after the end of each connection. Several goroutines may call OnReceived
	// at the same time.
	OnReceived func(Received)
}

// Received describes a connection and its file.
type Received struct {
	Sender  net.Addr
	Path    string // path of the file; "" if there is no file
	Entries int64  // number of entries in the file
	Bytes   int64  // total size of the entries
	Err     error  // why the connection ended; nil if the sender ended it between two entries
}

// Defaults returns a Receiver with the default values of its fields.
func Defaults() Receiver {
	return Receiver{
		MaxConnections: 64, MaxBuffer: 128 << 20, MaxEntrySize: 16 << 20, MaxBytes: 10 << 30, MaxFiles: 100_000,
		FrameTimeout: 30 * time.Second, IdleTimeout: 10 * time.Minute,
	}
}

const (
	// greetTimeout is the time limit for everything before the first entry, so that a client that is not a sender
	// does not occupy a connection.
	greetTimeout = 10 * time.Second
)

var (
	// ErrFrame is the error of a connection that sent something other than an entry: a damaged entry, or a length
	// that is 0, is above the limit, or does not fit the entry after it.
	ErrFrame = errors.New("remote: the sender did not send a valid entry")
	// ErrBusy is the error of a connection that exceeded Receiver.MaxConnections or MaxPerAddress, or whose entry
	// did not fit into Receiver.MaxBuffer.
	ErrBusy = listener.ErrBusy
	// ErrQuota is the error of a connection that ended because of Receiver.MaxBytes or
	// MaxFiles.
	ErrQuota = receivedfiles.ErrQuota
	// ErrInsecure is returned for an address that other machines can reach, if senders need neither a token nor a
	// client certificate. TLS alone is not enough.
	ErrInsecure = listener.ErrInsecure
)

// Serve accepts connections of l until ctx is done. Then it closes l, finishes all files and returns. It returns an
// error only if l fails, or if r cannot serve on l. The error is [ErrInsecure] if other users or machines can connect
// to l and senders need neither a token nor a client certificate. Only users of this machine can connect to a
// loopback address. Only its owner can connect to a unix socket of [Receiver.Listen].
func (r *Receiver) Serve(ctx context.Context, l net.Listener) error {
	sv := server{Receiver: *r}
	if err := sv.check(l); err != nil {
		return errors.Join(fmt.Errorf("receive at %v: %w", l.Addr(), err), l.Close())
	}
	l = listener.New(l, listener.Bounds{Connections: sv.MaxConnections, PerAddress: sv.MaxPerAddress, Refused: func(sender net.Addr) {
		sv.report(Received{Sender: sender, Err: ErrBusy})
	}})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	defer sv.senders.Wait()
	defer l.Close() // usually l is already closed
	for {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = conn.Close() // nothing was read from it
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			cancel()
			return fmt.Errorf("receive: %w", err)
		case err != nil: // for example too many open files
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		sv.senders.Go(func() { sv.report(sv.receive(ctx, conn)) })
	}
}

// A server holds the state of Receiver.Serve.
type server struct {
	Receiver

	senders sync.WaitGroup
	names   receivedfiles.Names
	buffers budget // unit: bytes
	quota   receivedfiles.Quota
}

// check sets the defaults of unset fields. It returns an error if a field is invalid or if r must not serve on l.
func (sv *server) check(l net.Listener) error {
	unset := Defaults()
	if sv.MaxConnections <= 0 {
		sv.MaxConnections = unset.MaxConnections
	}
	if sv.MaxEntrySize <= 0 {
		sv.MaxEntrySize = unset.MaxEntrySize
	}
	sv.MaxEntrySize = min(sv.MaxEntrySize, format.DefaultMaxEntrySize)
	if sv.MaxBuffer <= 0 {
		sv.MaxBuffer = unset.MaxBuffer
	}
	sv.buffers.max = sv.MaxBuffer
	room := int64(sv.MaxEntrySize)*3/2 + 4*bufSize // enough for an entry while its buffer grows
	if room > sv.MaxBuffer {
		return fmt.Errorf("remote: MaxBuffer %d is too small for an entry of MaxEntrySize %d", sv.MaxBuffer, sv.MaxEntrySize)
	}
	share := (&listener.Bounds{Connections: sv.MaxConnections, PerAddress: sv.MaxPerAddress}).Share()
	sv.buffers.perAddress = max(int64(float64(sv.MaxBuffer)*float64(share)/float64(sv.MaxConnections)), room)
	switch {
	case sv.IdleTimeout == 0:
		sv.IdleTimeout = unset.IdleTimeout
	case sv.IdleTimeout < 0:
		sv.IdleTimeout = 0 // for a frames, 0 means no limit
	}
	if sv.FrameTimeout <= 0 {
		sv.FrameTimeout = unset.FrameTimeout
	}
	if sv.TLS != nil {
		sv.TLS = listener.Secure(sv.TLS)
	}
	if err := listener.Check(l.Addr(), sv.Token, sv.TLS); err != nil {
		return fmt.Errorf("remote: %w", err)
	}
	fi, err := os.Stat(sv.Dir)
	if err == nil && !fi.IsDir() {
		err = fmt.Errorf("%s is not a folder", sv.Dir)
	}
	if err != nil {
		return err
	}
	sv.quota.Dir, sv.quota.MaxBytes, sv.quota.MaxFiles = sv.Dir, limitOf(sv.MaxBytes, unset.MaxBytes), limitOf(sv.MaxFiles, unset.MaxFiles)
	return sv.quota.Rescan()
}

func (sv *server) report(r Received) {
	if sv.OnReceived != nil {
		sv.OnReceived(r)
	}
}

// receive receives the trace of one sender.
func (sv *server) receive(ctx context.Context, conn net.Conn) Received {
	done := Received{Sender: conn.RemoteAddr()}
	// When ctx is done, end a blocked read at once.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	f := &frames{
		conn: &timed{Conn: &answeringConn{conn}, ctx: ctx}, limit: sv.MaxEntrySize, frame: sv.FrameTimeout, idle: sv.IdleTimeout,
		buffers: &sv.buffers, from: listener.AddressOf(conn.RemoteAddr(), sv.MaxPerAddress <= 0),
	}
	defer f.release()
	if err := sv.greet(ctx, f); err != nil {
		done.Err = errors.Join(err, ctxErr(ctx))
		_ = conn.Close() // the connection cannot be used
		return done
	}
	listener.Trust(conn, true)
	in := &incoming{names: &sv.names, dir: sv.Dir, version: f.r.Version(), quota: &sv.quota}
	if sv.OnBegun != nil {
		in.begun = func(path string) { sv.OnBegun(Received{Sender: done.Sender, Path: path}) }
	}
	err := sv.entries(f, in)
	// Close the connection now, because finishing the file can take a while.
	_ = conn.Close() // nothing was written to it
	if cerr := ctxErr(ctx); cerr != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		err = cerr
	}
	done.Entries, done.Bytes = in.entries, in.size
	var ferr error
	done.Path, ferr = in.finish(context.WithoutCancel(ctx))
	done.Err = errors.Join(err, ferr)
	return done
}

// An answeringConn is a connection with a time limit for each write. TLS may write during a read. Without a limit, a
// sender that reads nothing could block this write forever.
type answeringConn struct{ net.Conn }

const answerTimeout = time.Second

func (a *answeringConn) Write(b []byte) (int, error) {
	_ = a.SetWriteDeadline(time.Now().Add(answerTimeout))
	n, err := a.Conn.Write(b)
	if err != nil {
		_ = a.Close()
	}
	return n, err
}

func ctxErr(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("the receiver is shutting down: %w", ctx.Err())
}

// greet does the TLS handshake and reads the token and the magic.
func (sv *server) greet(ctx context.Context, f *frames) error {
	f.conn.until(min(sv.FrameTimeout, greetTimeout))
	if sv.TLS != nil {
		t := tls.Server(f.conn.Conn, sv.TLS)
		if err := t.HandshakeContext(ctx); err != nil {
			return fmt.Errorf("tls: %w", err)
		}
		// GetConfigForClient may return a configuration that allows older versions.
		if t.ConnectionState().Version < tls.VersionTLS13 {
			return errors.New("tls: the sender must use TLS 1.3 or later")
		}
		if sv.Token == "" && listener.RequiresCertificate(sv.TLS) && len(t.ConnectionState().VerifiedChains) == 0 {
			return errors.New("tls: the sender sent no verified certificate")
		}
		f.conn.Conn = t
	}
	return f.greet(sv.Token)
}

// entries passes the entries of a connection to in until the connection ends.
func (sv *server) entries(f *frames, in *incoming) error {
	f.wait = in.wait
	for {
		raw, err := f.next()
		if err != nil {
			return errors.Join(eof(err), in.flush())
		}
		if err := in.add(raw); err != nil {
			return err
		}
	}
}
