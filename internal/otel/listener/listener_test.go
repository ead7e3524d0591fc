package listener

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
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
	tracetest.Golden(t, "testdata/room.txt", *update, func(line string) (said string) {
		synctest.Test(t, func(t *testing.T) {
			parts := strings.Split(line, " | ")
			refused := 0
			bounds := Bounds{Token: strings.HasSuffix(parts[0], "token"), Refused: func(net.Addr) { refused++ }}
			_, err := fmt.Sscanf(parts[0], "%d/%d", &bounds.Connections, &bounds.PerAddress)
			expect.Must(t, err)
			inner := make(pipes)
			l := New(inner, bounds)
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
			var active []int
			for i, text := range strings.Fields(parts[1]) {
				from, flag, _ := strings.Cut(text, "=")
				client, server := dial(from)
				ours, theirs = append(ours, server), append(theirs, client)
				switch flag {
				case "t", "h":
					Trust(server, flag == "h")
				case "a":
					active = append(active, i)
					fallthrough
				default:
					Busy(tls.Server(server, nil), flag == "b")
				}
				time.Sleep(time.Second)
			}
			for _, i := range active {
				go func() { _, _ = theirs[i].Write([]byte{1}) }()
				_, _ = ours[i].Read(make([]byte, 1))
			}
			client, server := dial(parts[2])
			said = "taken"
			if server == nil {
				said = "refused"
			}
			expect.Equal(t, refused == 0, server != nil, "%s: whether no one is refused", line)
			for i := range ours {
				_ = theirs[i].SetReadDeadline(time.Now().Add(time.Second))
				if _, err := theirs[i].Read(make([]byte, 1)); errors.Is(err, io.EOF) {
					said += fmt.Sprint(", connection ", i, " ends")
					expect.Is(t, expect.Err(ours[i].Read(make([]byte, 1))), ErrBusy, "%s: connection %d ends", line, i)
				}
				_ = ours[i].Close()
			}
			if _, another := dial(parts[2]); another == nil {
				t.Errorf("%s: there is no room when all have gone", line)
			} else {
				_ = another.Close()
			}
			_ = client.Close()
			_ = l.Close()
		})
		return said
	})
}

var update = flag.Bool("update", false, "write the expected results in testdata again")

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
