package remote_test

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/remote"
)

// A pipes is a listener whose connections are pipes within the process and can have any address.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipes() *pipes { return &pipes{make(chan net.Conn), make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	select {
	case <-p.closed:
	default:
		close(p.closed)
	}
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// A pipe is a connection from any address.
type pipe struct {
	net.Conn

	from string
}

func (p *pipe) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(p.from), Port: 2} }

// dial connects from the given address.
func (p *pipes) dial(from string) net.Conn {
	a, b := net.Pipe()
	p.conns <- &pipe{a, from}
	return b
}

func last(got []remote.Received) remote.Received { return got[len(got)-1] }

// TestConnectionsPerAddress checks that one address cannot use all connections.
func TestConnectionsPerAddress(t *testing.T) {
	l := newPipes()
	r := serve(t, remote.Receiver{MaxConnections: 8, MaxPerAddress: 2}, l)
	send := func(from string) error {
		c := l.dial(from)
		t.Cleanup(func() { _ = c.Close() })
		_, err := c.Write(stream(format.Root()))
		return err
	}
	must(t, errors.Join(send("192.0.2.1"), send("192.0.2.1")))
	if err := send("192.0.2.1"); err == nil || !errors.Is(r.await(1)[0].Err, remote.ErrBusy) {
		t.Errorf("one more is taken: %v", err)
	}
	must(t, send("192.0.2.2"))
}

// soFar returns the results of the connections that have ended.
func (v *running) soFar() []remote.Received {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.got)
}

// large returns the frame of an entry of the given size in MiB.
func large(mebibytes int) []byte {
	return frame(nil, tracetest.Log(strings.Repeat("x", mebibytes<<20)))
}

// TestBufferedBytes checks the limits of the memory for incomplete entries: for all senders and for one address.
// Connections must release the memory that they have used.
func TestBufferedBytes(t *testing.T) {
	l := newPipes()
	r := serve(t, remote.Receiver{MaxConnections: 8, MaxBuffer: 24 << 20, MaxEntrySize: 4<<20 - 100}, l)
	begin := func(from string, b []byte) net.Conn {
		c := l.dial(from)
		t.Cleanup(func() { _ = c.Close() })
		_, _ = c.Write(stream(format.Root(), named(0, "a"))) // an error is reported if the sender is refused
		_, _ = c.Write(b)
		return c
	}
	three := large(3)
	half := three[:len(three)-1]
	first := begin("192.0.2.1", half)
	begin("192.0.2.1", half)
	if got := r.await(1)[0]; !errors.Is(got.Err, remote.ErrBusy) || !strings.Contains(got.Err.Error(), "no room for an entry of 3145") || outline(t, got.Path) != "root a<root" {
		t.Errorf("a second sender from one address: %+v", got)
	}
	for i := range 7 { // loopback addresses have no limit of their own
		c := begin("127.0.0.1", half)
		if i < 6 {
			defer c.Close()
		}
	}
	expect.Is(t, r.await(2)[1].Err, remote.ErrBusy, "above the bound for all")
	_, err := first.Write(three[len(three)-1:])
	must(t, err)
	must(t, first.Close())
	if got := last(r.await(3)); got.Err != nil || got.Entries != 3 {
		t.Errorf("the first one: %+v", got)
	}
	again := begin("192.0.2.1", three)
	must(t, again.Close())
	if got := last(r.await(4)); got.Err != nil || got.Entries != 3 {
		t.Errorf("when it has gone another one: %+v", got)
	}
	tight := remote.Receiver{Dir: t.TempDir(), MaxBuffer: 20 << 20}
	expect.Says(t, expect.Err(tight.Listen("127.0.0.1:0")), "MaxBuffer", "a buffer without room for the largest entry")
}

// TestIdleByDefault checks that an idle connection ends after ten minutes by default, and never if IdleTimeout is
// negative.
func TestIdleByDefault(t *testing.T) {
	for _, test := range []struct {
		idle time.Duration
		ends bool
	}{{0, true}, {-1, false}} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			l := newPipes()
			r := serve(t, remote.Receiver{Dir: dir, IdleTimeout: test.idle}, l)
			for range 64 {
				c := l.dial("127.0.0.1")
				defer c.Close()
				_, err := c.Write(stream())
				must(t, err)
			}
			time.Sleep(9 * time.Minute)
			synctest.Wait()
			if got := r.soFar(); len(got) != 0 {
				t.Errorf("%d have ended after nine minutes: %v", len(got), got[0].Err)
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			got := r.soFar()
			if n := len(got); n != 64 && test.ends || n != 0 && !test.ends {
				t.Fatalf("%d have ended", n)
			}
			if !test.ends {
				return
			}
			if err := got[0].Err; !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "nothing was received for 10m0s") {
				t.Errorf("they have ended with %v", err)
			}
			c := l.dial("127.0.0.1")
			_, err := c.Write(stream(format.Root()))
			must(t, err)
			must(t, c.Close())
			synctest.Wait()
			if got := last(r.soFar()); len(r.soFar()) != 65 || got.Err != nil || got.Entries != 1 {
				t.Errorf("the next one: %+v", got)
			}
		})
	}
}

// TestInsecureSaysWhatToAdd checks the error if there is only TLS.
func TestInsecureSaysWhatToAdd(t *testing.T) {
	r := remote.Receiver{Dir: t.TempDir(), TLS: &tls.Config{}}
	_, err := r.Listen(":0")
	expect.MustIs(t, err, remote.ErrInsecure, "Listen")
	for _, what := range []string{"token", "client certificates", "--token-env", "--client-ca"} {
		expect.Says(t, err, what, "the error")
	}
}

// TestConfigForClient checks that GetConfigForClient cannot weaken the TLS configuration.
func TestConfigForClient(t *testing.T) {
	cert, pool := certificate(t)
	wants := &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	for name, other := range map[string]*tls.Config{
		"without client certificates": {Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13},
		"of TLS 1.2":                  {Certificates: []tls.Certificate{cert}, MaxVersion: tls.VersionTLS12, MinVersion: tls.VersionTLS12},
	} {
		t.Run(name, func(t *testing.T) {
			c := wants.Clone()
			c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return other, nil }
			r := receive(t, remote.Receiver{TLS: c}, "127.0.0.1:0")
			conn, err := tls.Dial("tcp", strings.TrimPrefix(r.addr, "tls://"), &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12})
			must(t, err)
			defer conn.Close()
			_, _ = conn.Write(stream(format.Root(), named(0, "a"))) // the receiver may have closed the connection
			if got := r.await(1)[0]; got.Err == nil || got.Path != "" {
				t.Errorf("received %+v", got)
			}
		})
	}
}

// thousand returns the frames of n entries of about 1,000 bytes.
func thousand(n int) []byte {
	var b []byte
	for range n {
		b = frame(b, tracetest.Log(strings.Repeat("x", 1000)))
	}
	return b
}

// sendAll sends b on a new connection, closes it, and returns the result.
func (v *running) sendAll(b []byte) remote.Received {
	v.t.Helper()
	n := len(v.soFar())
	c := v.dial()
	_, _ = c.Write(b) // the sender may be refused
	c.Close()
	return last(v.await(n + 1))
}

// TestQuotaOfBytes checks MaxBytes: a trace ends with a complete entry, new senders are refused, and the traces
// of earlier receivers count.
func TestQuotaOfBytes(t *testing.T) {
	dir := t.TempDir()
	before := filepath.Join(dir, "20260101T000000.000Z-000001.et")
	must(t, os.WriteFile(before, make([]byte, 50_000), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "mine.et"), make([]byte, 500_000), 0o600)) // not a received trace
	r := receive(t, remote.Receiver{Dir: dir, MaxBytes: 150_000}, "127.0.0.1:0")
	got := r.sendAll(append(stream(format.Root()), thousand(500)...))
	if !errors.Is(got.Err, remote.ErrQuota) || filepath.Ext(got.Path) != ".et" || got.Entries < 90 || got.Bytes > 100_000 {
		t.Errorf("received %+v", got)
	}
	if f := openTrace(t, got.Path); int64(f.Len()) != got.Entries || f.Damage() != nil {
		t.Errorf("the trace has %d entries, %v", f.Len(), f.Damage())
	}
	for range 3 { // these senders have no file
		if got := r.sendAll(append(stream(format.Root()), thousand(5)...)); !errors.Is(got.Err, remote.ErrQuota) || got.Path != "" {
			t.Errorf("received %+v", got)
		}
	}
	expect.Len(t, files(t, dir), 3, "the folder has")
	must(t, os.Remove(before))
	for range 500 { // the quota scans the folder again after a second or more
		got = r.sendAll(append(stream(format.Root()), thousand(5)...))
		if got.Err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if got.Err != nil || got.Entries != 6 {
		t.Errorf("with room again: %+v", got)
	}
}

// TestQuotaOfFiles checks the limit MaxFiles.
func TestQuotaOfFiles(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "20260101T000000.000Z-000001.iet"), nil, 0o600))
	r := receive(t, remote.Receiver{Dir: dir, MaxFiles: 3}, "127.0.0.1:0")
	for i := range 5 {
		got := r.sendAll(stream(format.Root(), named(0, "a")))
		if i < 2 && (got.Err != nil || got.Entries != 2) || i >= 2 && (!errors.Is(got.Err, remote.ErrQuota) || got.Path != "") {
			t.Errorf("sender %d: %+v", i, got)
		}
	}
	r = receive(t, remote.Receiver{Dir: dir, MaxFiles: -1}, "127.0.0.1:0")
	expect.Is(t, r.sendAll(stream(format.Root(), named(0, "a"))).Err, nil, "without a bound")
}

// TestFullDisk checks that a trace ends with a complete entry when the disk is full, and that the file remains an
// IET if there is no room for the ET.
func TestFullDisk(t *testing.T) {
	if !hosttest.Alone(t) {
		return
	}
	r := receive(t, remote.Receiver{}, "127.0.0.1:0")
	b := append(stream(format.Root()), thousand(500)...)
	restore := hosttest.LimitFiles(t, 300_000)
	got := r.sendAll(b)
	restore()
	if !errors.Is(got.Err, syscall.EFBIG) || filepath.Ext(got.Path) != ".iet" || got.Entries < 280 || got.Entries > 300 {
		t.Errorf("received %+v", got)
	}
	f := openTrace(t, got.Path)
	if int64(f.Len()) != got.Entries || f.Damage() != nil {
		t.Errorf("the IET has %d entries, %v", f.Len(), f.Damage())
	}
	expect.Len(t, files(t, r.dir), 1, "the folder has")
	if got := r.sendAll(b); got.Err != nil || got.Entries != 501 {
		t.Errorf("with room again: %+v", got)
	}
}

// TestRemovedWhileItGrows checks that the path of a file is not reported if somebody removed the file.
func TestRemovedWhileItGrows(t *testing.T) {
	r := receive(t, remote.Receiver{}, "127.0.0.1:0")
	c := r.dial()
	_, err := c.Write(stream(format.Root(), named(0, "a")))
	must(t, err)
	var names []string
	tracetest.Eventually(t, "there is a file", func() bool {
		names = files(t, r.dir)
		return len(names) == 1
	})
	name := filepath.Join(r.dir, names[0])
	f, err := osfile.OpenRead(name)
	must(t, err)
	must(t, osfile.Remove(f, name)) // so that the name is free at once, even on Windows
	defer f.Close()
	c.Close()
	if got := r.await(1)[0]; got.Path != "" || got.Err == nil {
		t.Errorf("received %+v", got)
	}
}

func openTrace(t *testing.T, name string) *format.File {
	t.Helper()
	f, err := format.Open(name, &format.OpenOptions{Prefix: true})
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}
