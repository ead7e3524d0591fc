package listener

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// A pipes is a listener whose connections are pipes within the process and can have any address.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4zero} }

type pipe struct {
	net.Conn

	from string
}

func (p *pipe) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(p.from)} }

// TestWhoGivesWay checks which connection is ended to make room: the connection that was idle longest, first among
// the connections that are not trusted. If the address of the client has its maximum, the connection must come from
// the same address. A busy or held connection is never ended.
func TestWhoGivesWay(t *testing.T) {
	for name, c := range map[string]struct {
		bounds Bounds
		// The field from has the addresses of the open connections, which are a second apart. The field flags has a
		// letter for each connection: t for trusted, h for trusted and held, b for busy, a for active at the end.
		from, flags string
		last        string // the address of the client that needs room
		ends        int    // index of the connection that ends; -1: none, the client is refused; -2: none, there is room
	}{
		"there is room":             {Bounds{Connections: 4, PerAddress: 4}, "1 2 3", "   ", "4", -2},
		"the first":                 {Bounds{Connections: 3, PerAddress: 3}, "1 2 3", "   ", "4", 0},
		"the idlest":                {Bounds{Connections: 3, PerAddress: 3}, "1 2 3", "a  ", "4", 1},
		"not the trusted one":       {Bounds{Connections: 3, PerAddress: 3}, "1 2 3", "tt ", "4", 2},
		"a trusted one":             {Bounds{Connections: 3, PerAddress: 3}, "1 2 3", "ttt", "4", 0},
		"not what is held":          {Bounds{Connections: 3, PerAddress: 3}, "1 2 3", "hht", "4", 2},
		"all are held":              {Bounds{Connections: 3, PerAddress: 3}, "1 2 3", "hhh", "4", -1},
		"not the busy one":          {Bounds{Connections: 3, PerAddress: 3}, "1 2 3", "b  ", "4", 1},
		"all are busy":              {Bounds{Connections: 3, PerAddress: 3}, "1 2 3", "bbb", "4", -1},
		"a busy one without token":  {Bounds{Connections: 2, PerAddress: 2, Token: true}, "1 2", "bt", "4", 0},
		"the same address":          {Bounds{Connections: 8, PerAddress: 2}, "1 2 2", "   ", "2", 1},
		"a quarter":                 {Bounds{Connections: 8}, "192.0.2.1 ::ffff:192.0.2.1", "  ", "192.0.2.1", 0},
		"a network of IPv6":         {Bounds{Connections: 8}, "2001:db8::1 2001:db8::2:3:4:5", "  ", "2001:db8::7", 0},
		"another network":           {Bounds{Connections: 8}, "2001:db8::1 2001:db8::2:3:4:5", "  ", "2001:db8:0:1::1", -2},
		"no bound for this machine": {Bounds{Connections: 3}, "127.0.0.1 ::1", "  ", "127.0.0.1", -2},
		"a bound for this machine":  {Bounds{Connections: 8, PerAddress: 2}, "127.0.0.1 127.0.0.1", "  ", "127.0.0.1", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				refused := 0
				c.bounds.Refused = func(net.Addr) { refused++ }
				inner := make(pipes)
				l := New(inner, c.bounds)
				accepted := make(chan net.Conn)
				go func() {
					defer close(accepted)
					for {
						c, err := l.Accept()
						if err != nil {
							return
						}
						accepted <- c
					}
				}()
				dial := func(from string) (client, server net.Conn) {
					if !strings.ContainsAny(from, ".:") {
						from = "192.0.2." + from
					}
					a, b := net.Pipe()
					inner <- &pipe{a, from}
					synctest.Wait()
					select {
					case server = <-accepted:
					default:
					}
					return b, server
				}
				var ours, theirs []net.Conn
				for i, from := range strings.Fields(c.from) {
					client, server := dial(from)
					ours, theirs = append(ours, server), append(theirs, client)
					if flag := c.flags[i]; flag == 't' || flag == 'h' {
						Trust(server, flag == 'h')
					} else {
						Busy(tls.Server(server, nil), flag == 'b')
					}
					time.Sleep(time.Second)
				}
				for i, flag := range c.flags {
					if flag == 'a' {
						go func() { _, _ = theirs[i].Write([]byte{1}) }()
						_, _ = ours[i].Read(make([]byte, 1))
					}
				}
				client, server := dial(c.last)
				if got := server != nil; got != (c.ends != -1) || (refused == 0) != got {
					t.Errorf("it is taken: %t, %d refused", got, refused)
				}
				for i := range ours {
					_ = theirs[i].SetReadDeadline(time.Now().Add(time.Second))
					if _, err := theirs[i].Read(make([]byte, 1)); errors.Is(err, io.EOF) != (i == c.ends) {
						t.Errorf("connection %d: %v", i, err)
					}
					if i == c.ends {
						expect.Is(t, expect.Err(ours[i].Read(make([]byte, 1))), ErrBusy, "connection %d ends", i)
					}
					_ = ours[i].Close()
				}
				if _, another := dial(c.last); another == nil {
					t.Error("there is no room when all have gone")
				} else {
					_ = another.Close()
				}
				_ = client.Close()
				_ = l.Close()
			})
		})
	}
}

// TestWaitForRoom checks that, without Refused, a client waits until there is room or the listener is closed.
func TestWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := make(pipes)
		l := New(inner, Bounds{Connections: 1})
		first, second := make(chan net.Conn, 1), make(chan net.Conn, 1)
		accept := func(to chan net.Conn) {
			c, err := l.Accept()
			if err == nil {
				Busy(c, true)
				to <- c
			}
			close(to)
		}
		go accept(first)
		a, b := net.Pipe()
		inner <- &pipe{a, "192.0.2.1"}
		held := <-first
		go accept(second)
		inner <- &pipe{b, "192.0.2.2"}
		time.Sleep(time.Minute)
		if len(second) != 0 {
			t.Fatal("there was room")
		}
		_ = held.Close()
		if c := <-second; c == nil {
			t.Fatal("it got no room")
		}
		third := make(chan net.Conn, 1)
		go accept(third)
		inner <- &pipe{b, "192.0.2.2"} // its address has a busy connection: it is closed without waiting
		inner <- &pipe{a, "192.0.2.1"}
		time.Sleep(time.Minute)
		_ = l.Close()
		if c := <-third; c != nil {
			t.Error("the listener is closed, and took one more")
		}
	})
}

func TestCheck(t *testing.T) {
	long := strings.Repeat("x", 16)
	all, own := &net.TCPAddr{IP: net.IPv4zero}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
	certificates := &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool()}
	for _, c := range []struct {
		at    net.Addr
		token string
		tls   *tls.Config
		want  string
	}{
		{own, "", nil, ""},
		{own, "x", nil, "1 bytes"},
		{all, long[1:], certificates, "15 bytes"},
		{all, strings.Repeat(long, 16) + "x", nil, "257 bytes"},
		{all, "", nil, "set a token"},
		{all, "", &tls.Config{}, "set a token"},
		{all, "", certificates, ""},
		{all, long, nil, ""},
		{all, "", &tls.Config{ClientCAs: certificates.ClientCAs}, "set a token"},
		{&net.UnixAddr{Name: "/none"}, "", nil, "set a token"},
	} {
		err := Check(c.at, c.token, c.tls)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, a token of %d bytes: %v, want %q", c.at, len(c.token), err, c.want)
		}
	}
}
