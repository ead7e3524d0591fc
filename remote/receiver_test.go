package remote_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/remote"
)

// TestS08NoSender checks that a client that is not a sender is refused at once, is reported once, and leaves no
// file.
func TestS08NoSender(t *testing.T) {
	hello := make(chan []byte, 1)
	go func() {
		a, b := net.Pipe()
		go func() { _ = tls.Client(a, &tls.Config{ServerName: "x"}).Handshake(); a.Close() }()
		buf := make([]byte, 1000)
		n, _ := b.Read(buf)
		b.Close()
		hello <- buf[:n]
	}()
	for _, tt := range []struct{ name, sent string }{
		{"http", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
		{"tls", string(<-hello)},
		{"one byte", "x"},
		{"zeros", strings.Repeat("\x00", 1000)},
		{"version", "\x00ENTRACE\x07\x02"},
		{"iet", "\x00ENTRACE\x01\x01"},
		{"storage format", "\x00ENTRACE\x01\x09"},
	} {
		for _, token := range []string{"", secret} {
			t.Run(tt.name+token, func(t *testing.T) {
				r := receive(t, remote.Receiver{Token: token}, "127.0.0.1:0")
				c := r.dial()
				sent := tt.sent
				if token != "" {
					sent += strings.Repeat("x", 10)
				}
				_, err := c.Write([]byte(sent))
				must(t, err)
				_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
				if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("the connection is still open: %v", err)
				}
				got := r.await(1)
				if len(got) != 1 || got[0].Err == nil || got[0].Path != "" {
					t.Errorf("received %+v, want one error and no file", got)
				}
				if token != "" && !errors.Is(got[0].Err, remote.ErrToken) {
					t.Errorf("the error is %v, want ErrToken", got[0].Err)
				}
				if names := files(t, r.dir); len(names) > 0 {
					t.Errorf("the folder has %v", names)
				}
			})
		}
	}
}

// TestS08Gone checks that a sender that only connects and disconnects is reported once and leaves no file.
func TestS08Gone(t *testing.T) {
	r := receive(t, remote.Receiver{}, "127.0.0.1:0")
	for i, b := range [][]byte{nil, stream()[:5], stream()} {
		c := r.dial()
		_, err := c.Write(b)
		must(t, err)
		c.Close()
		if got := r.await(i + 1); len(got) != i+1 || got[i].Path != "" || (got[i].Err == nil) != (i == 2) {
			t.Errorf("after %d bytes: %+v", len(b), got[i])
		}
	}
	if names := files(t, r.dir); len(names) > 0 {
		t.Errorf("the folder has %v", names)
	}
}

// TestS09Length sends lengths that are not the length of an entry. The connection must end at once, and the claimed
// memory must not be allocated.
func TestS09Length(t *testing.T) {
	raw := format.AppendTraceEntry(nil, format.V1, named(0, "bad"))
	claim := func(n uint64, raw []byte) []byte { return append(binary.LittleEndian.AppendUint64(nil, n), raw...) }
	for _, tt := range []struct {
		name string
		sent []byte
		open bool // the sender does not close the connection
	}{
		{name: "zero", sent: claim(0, nil)},
		{name: "zeros", sent: make([]byte, 100)},
		{name: "over the limit", sent: claim(format.DefaultMaxEntrySize+1, nil)},
		{name: "2^64-1", sent: claim(1<<64-1, nil)},
		{name: "2^63", sent: claim(1<<63, nil)},
		{name: "shorter", sent: claim(uint64(len(raw)-1), raw)},
		{name: "longer", sent: claim(uint64(len(raw)+1), append(raw, 0))},
		{name: "empty", sent: claim(1, []byte{0})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := receive(t, remote.Receiver{}, "127.0.0.1:0")
			c := r.dial()
			good := stream(format.Root(), named(0, "good"))
			_, err := c.Write(append(good, tt.sent...))
			must(t, err)
			got := r.await(1)[0] // although the sender has not closed the connection
			expect.Is(t, got.Err, remote.ErrFrame, "the error")
			ce, ok := errors.AsType[*format.CorruptError](got.Err)
			if !ok || ce.Offset != int64(len(good)) || ce.Entry != 2 {
				t.Errorf("the error %v is not about entry 2 at offset %d", got.Err, len(good))
			}
			if s := outline(t, got.Path); s != "root good<root" || got.Entries != 2 {
				t.Errorf("the file holds %d entries, %q", got.Entries, s)
			}
		})
	}
}

// TestS09Memory checks that the receiver allocates little memory if a sender announces an entry of maximum size,
// but sends only its beginning.
func TestS09Memory(t *testing.T) {
	r := receive(t, remote.Receiver{FrameTimeout: 5 * time.Second, MaxEntrySize: format.DefaultMaxEntrySize}, "127.0.0.1:0")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const senders, sent = 20, 100 << 10
	for range senders {
		b := append(stream(format.Root()), binary.LittleEndian.AppendUint64(nil, format.DefaultMaxEntrySize)...)
		_, err := r.dial().Write(append(b, make([]byte, sent)...))
		must(t, err)
	}
	time.Sleep(200 * time.Millisecond)
	runtime.ReadMemStats(&after)
	// The test itself allocates a third of these bytes for sending.
	if n := after.TotalAlloc - before.TotalAlloc; n > senders*(5*sent+4*64<<10) {
		t.Errorf("%d senders of %d bytes made it allocate %d", senders, sent, n)
	}
}

// TestS10Slow sends entries byte by byte, with pauses within lengths and entries.
func TestS10Slow(t *testing.T) {
	r := receive(t, remote.Receiver{Token: secret}, "127.0.0.1:0")
	c := r.dial()
	b := preface(secret)
	b = append(b, stream(format.Root(), named(0, "a"), named(1, "b"))...)
	for i := range b {
		_, err := c.Write(b[i : i+1])
		must(t, err)
		if i%9 == 0 {
			time.Sleep(3 * time.Millisecond)
		}
	}
	time.Sleep(500 * time.Millisecond)
	// The complete entries are in the file while the sender is still connected.
	names := files(t, r.dir)
	if len(names) != 1 || !strings.HasSuffix(names[0], ".iet") {
		t.Fatalf("the folder has %v, want an IET", names)
	}
	expect.Equal(t, outline(t, filepath.Join(r.dir, names[0])), "root a<root b<a", "the file holds")
	c.Close()
	got := r.await(1)[0]
	if got.Err != nil || filepath.Ext(got.Path) != ".et" || outline(t, got.Path) != "root a<root b<a" {
		t.Errorf("received %+v", got)
	}
}

func preface(token string) []byte {
	return append(wire.AppendHex([]byte("ENTRACE-TOKEN "), []byte(token)), '\n')
}

// TestS10Stall checks that the connection ends if a sender stops within an entry for too long. The entries before
// it must remain.
func TestS10Stall(t *testing.T) {
	whole := stream(format.Root(), named(0, "a"))
	r := receive(t, remote.Receiver{FrameTimeout: 500 * time.Millisecond}, "127.0.0.1:0")
	parts := []int{1, 7, 8, 10}
	for _, more := range parts {
		_, err := r.dial().Write(append(slices.Clip(whole), frame(nil, named(0, "b"))[:more]...))
		must(t, err)
	}
	for _, got := range r.await(len(parts)) {
		if !errors.Is(got.Err, os.ErrDeadlineExceeded) || !errors.Is(got.Err, format.ErrTruncated) {
			t.Errorf("the error is %v, want a timeout within an entry", got.Err)
		}
		expect.Equal(t, outline(t, got.Path), "root a<root", "the file holds")
	}
}

// TestS10Idle checks that a sender may wait between two entries, but not longer than IdleTimeout.
func TestS10Idle(t *testing.T) {
	r := receive(t, remote.Receiver{FrameTimeout: 300 * time.Millisecond, IdleTimeout: 900 * time.Millisecond}, "127.0.0.1:0")
	c := r.dial()
	_, err := c.Write(stream(format.Root()))
	must(t, err)
	time.Sleep(450 * time.Millisecond)
	_, err = c.Write(frame(nil, named(0, "a")))
	must(t, err)
	got := r.await(1)[0]
	if !errors.Is(got.Err, os.ErrDeadlineExceeded) || errors.Is(got.Err, format.ErrTruncated) || outline(t, got.Path) != "root a<root" {
		t.Errorf("received %+v", got)
	}
}

// TestS11BadEntry checks that the first invalid entry ends the connection, and is not skipped.
func TestS11BadEntry(t *testing.T) {
	good := named(1, "after")
	level := frame(nil, named(0, "bad"))
	level[8+1+1+1+3+1] = 9
	for _, tt := range []struct {
		name string
		bad  []byte
		want error
	}{
		{"parent is itself", frame(nil, named(2, "bad")), format.ErrInvalid},
		{"parent to come", frame(nil, named(3, "bad")), format.ErrInvalid},
		{"level", level, format.ErrInvalid},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := receive(t, remote.Receiver{}, "127.0.0.1:0")
			c := r.dial()
			_, err := c.Write(frame(append(stream(format.Root(), named(0, "a")), tt.bad...), good))
			must(t, err)
			got := r.await(1)[0]
			if !errors.Is(got.Err, remote.ErrFrame) || !errors.Is(got.Err, tt.want) {
				t.Errorf("the error is %v, want ErrFrame and %v", got.Err, tt.want)
			}
			expect.Equal(t, outline(t, got.Path), "root a<root", "the file holds")
		})
	}
}

// TestTorn stops a sender at every byte of the last entry. The file must have the entries before it.
func TestTorn(t *testing.T) {
	b := stream(format.Root(), named(0, "a"), named(1, "b"))
	last := len(b) - len(frame(nil, named(1, "b")))
	r := receive(t, remote.Receiver{}, "127.0.0.1:0")
	n := 0
	for cut := last; cut <= len(b); cut++ {
		c := r.dial()
		_, err := c.Write(b[:cut])
		must(t, err)
		c.Close()
		n++
		got := r.await(n)[n-1]
		want := "root a<root"
		if cut == len(b) {
			want += " b<a"
		}
		if s := outline(t, got.Path); s != want || (got.Err == nil) != (cut == last || cut == len(b)) {
			t.Errorf("of %d bytes the file holds %q: %v", cut, s, got.Err)
		}
		if got.Err != nil && !errors.Is(got.Err, format.ErrTruncated) {
			t.Errorf("the error is %v, want ErrTruncated", got.Err)
		}
	}
}

// TestMaxConnections checks that a connection above the limit is refused, and that another sender may connect when
// the first connection has ended.
func TestMaxConnections(t *testing.T) {
	r := receive(t, remote.Receiver{MaxConnections: 1}, "127.0.0.1:0")
	first := r.dial()
	_, err := first.Write(stream(format.Root()))
	must(t, err)
	time.Sleep(20 * time.Millisecond)
	second := r.dial()
	if _, err := second.Read(make([]byte, 1)); err == nil {
		t.Error("the second connection got something")
	}
	expect.Is(t, r.await(1)[0].Err, remote.ErrBusy, "the second connection ended")
	first.Close()
	r.await(2)
	time.Sleep(10 * time.Millisecond)
	third := r.dial()
	_, err = third.Write(stream(format.Root()))
	must(t, err)
	third.Close()
	expect.Is(t, r.await(3)[2].Err, nil, "the third connection ended")
}

// TestManySenders checks that each sender has a separate file.
func TestManySenders(t *testing.T) {
	r := receive(t, remote.Receiver{}, "127.0.0.1:0")
	for i := range 30 {
		go func() {
			c, err := net.Dial("tcp", strings.TrimPrefix(r.addr, "tcp://"))
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			b := stream(format.Root())
			for range 100 {
				b = frame(b, named(0, itoa(i)))
			}
			expect.OK(t, expect.Err(c.Write(b)))
		}()
	}
	seen := make(map[string]bool)
	for _, got := range r.await(30) {
		s := outline(t, got.Path)
		name := strings.Fields(s)[1]
		if got.Err != nil || seen[name] || strings.Count(s, name) != 100 {
			t.Errorf("received %+v, %q", got, s)
		}
		seen[name] = true
	}
}

// TestEnd checks that a receiver that is stopped keeps the received entries and finishes the files.
func TestEnd(t *testing.T) {
	r := receive(t, remote.Receiver{}, "127.0.0.1:0")
	c := r.dial()
	_, err := c.Write(append(stream(format.Root(), named(0, "a")), 1, 2, 3))
	must(t, err)
	time.Sleep(500 * time.Millisecond)
	got := r.end()
	if len(got) != 1 || !errors.Is(got[0].Err, context.Canceled) || filepath.Ext(got[0].Path) != ".et" || outline(t, got[0].Path) != "root a<root" {
		t.Errorf("received %+v", got)
	}
}

// TestS12Insecure checks that a receiver without a token and without client certificates serves only private
// addresses.
func TestS12Insecure(t *testing.T) {
	asks := func(auth tls.ClientAuthType) remote.Receiver {
		return remote.Receiver{TLS: &tls.Config{ClientAuth: auth, ClientCAs: x509.NewCertPool()}}
	}
	socket := hosttest.Path(t, "s")
	own := remote.Receiver{Dir: t.TempDir()}
	for _, tt := range []struct {
		name, network, at string
		r                 remote.Receiver
		want              error
	}{
		{"any", "tcp", ":0", remote.Receiver{}, remote.ErrInsecure},
		{"any, token", "tcp", ":0", remote.Receiver{Token: secret}, nil},
		{"any, tls", "tcp", ":0", remote.Receiver{TLS: &tls.Config{}}, remote.ErrInsecure},
		{"any, tls, any certificate", "tcp", ":0", asks(tls.RequireAnyClientCert), remote.ErrInsecure},
		{"any, tls, optional certificate", "tcp", ":0", asks(tls.VerifyClientCertIfGiven), remote.ErrInsecure},
		{"any, tls, certificates of anybody's authority", "tcp", ":0", remote.Receiver{TLS: &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert}}, remote.ErrInsecure},
		{"any, tls, certificates", "tcp", ":0", asks(tls.RequireAndVerifyClientCert), nil},
		{"any, tls, token", "tcp", ":0", remote.Receiver{TLS: &tls.Config{}, Token: secret}, nil},
		{"loopback", "tcp", "127.0.0.1:0", remote.Receiver{}, nil},
		{"private socket", "", socket, remote.Receiver{}, nil},
		{"open socket", "unix", socket, remote.Receiver{}, remote.ErrInsecure},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if runtime.GOOS == "windows" && strings.HasSuffix(tt.name, "socket") {
				t.Skip("a socket has no mode that keeps others out")
			}
			l, err := net.Listen(tt.network, tt.at)
			if tt.network == "" {
				l, err = own.Listen("unix://" + tt.at)
			}
			must(t, err)
			if tt.network == "unix" {
				must(t, os.Chmod(tt.at, 0o666))
			}
			tt.r.Dir = t.TempDir()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := tt.r.Serve(ctx, l); !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) {
				t.Errorf("Serve: %v, want %v", err, tt.want)
			}
			if _, err := l.Accept(); err == nil {
				t.Error("the listener is open")
			}
		})
	}
	l := remote.Receiver{Token: "short", Dir: t.TempDir()}
	in, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	if err := l.Serve(t.Context(), in); err == nil {
		t.Error("a token of five bytes is taken")
	}
}

// TestS12Socket checks that only its owner can use a unix socket, and that it may replace the socket of a dead
// process, but no other file.
func TestS12Socket(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a socket has no mode that keeps others out")
	}
	path := hosttest.Path(t, "s")
	own := remote.Receiver{Dir: t.TempDir()}
	l, err := own.Listen("unix://" + path)
	must(t, err)
	fi, err := os.Stat(path)
	must(t, err)
	expect.Equal(t, fi.Mode().Perm(), 0o600, "the mode of the socket")
	if _, err := own.Listen("unix://" + path); err == nil {
		t.Error("a second receiver listens there")
	}
	must(t, l.Close())
	if names := files(t, filepath.Dir(path)); len(names) > 0 {
		t.Errorf("Close leaves %v", names)
	}
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must(t, err)
	dead.SetUnlinkOnClose(false)
	must(t, dead.Close())
	l, err = own.Listen("unix://" + path)
	must(t, err)
	must(t, l.Close())
	must(t, os.WriteFile(path, []byte("x"), 0o600))
	if _, err := own.Listen("unix://" + path); err == nil {
		t.Error("a file was replaced")
	}
}

// TestS12Token checks that only the right token is accepted, and that a Sender with a wrong token loses no entries.
func TestS12Token(t *testing.T) {
	r := receive(t, remote.Receiver{Token: secret, FrameTimeout: time.Second}, "127.0.0.1:0")
	for _, b := range [][]byte{stream(format.Root()), preface(secret + "x"), preface(strings.ToUpper(secret)), preface(secret[1:])} {
		c := r.dial()
		_, err := c.Write(append(b, stream(format.Root())...))
		must(t, err)
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	}
	for _, got := range r.await(4) {
		if !errors.Is(got.Err, remote.ErrToken) || got.Path != "" || strings.Contains(got.Err.Error(), secret) {
			t.Errorf("received %+v", got)
		}
	}
	for _, token := range []string{secret, "another token of its own"} {
		s, err := remote.NewSender(r.addr, &remote.SenderOptions{Token: token})
		must(t, err)
		rec := recorder.Stream(&recorder.Options{Tee: s})
		record(t, rec, 10)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err = rec.Close(ctx)
		cancel()
		if (err == nil) != (token == secret) {
			t.Errorf("token %q: %v", token, err)
		}
		st := s.Stats()
		if token == secret && (st.Dropped > 0 || st.Sent != st.Offered) || token != secret && (st.Sent > 0 || st.Dropped != st.Offered) {
			t.Errorf("token %q: the account is %+v", token, st)
		}
	}
}
