package heph_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/entrace-go/entrace/convert/heph"
)

func TestSendUDP(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	must(t, err)
	type got struct {
		raw string
		err error
	}
	packets := make(chan got, 16)
	served := make(chan error, 1)
	go func() {
		served <- heph.ServePacket(conn, func(from net.Addr, p *heph.Packet, err error) error {
			if from == nil {
				return errors.New("from nobody")
			}
			if err != nil {
				packets <- got{err: err}
			} else {
				packets <- got{raw: string(p.Raw)}
			}
			return nil
		})
	}()
	s, err := heph.Dial(t.Context(), "udp", conn.LocalAddr().String())
	must(t, err)
	must(t, s.Epoch(time.Unix(0, 5)))
	e := &heph.Event{Description: "x", End: 7}
	must(t, s.Stream(3).Send(e))
	must(t, s.Stream(3).Send(e))
	must(t, s.Stream(4).Send(e))
	if err := s.Stream(4).Send(&heph.Event{Attributes: []heph.Attribute{{Name: "n", Value: heph.U64s(make([]uint64, 9000))}}}); !errors.Is(err, heph.ErrTooLarge) {
		t.Errorf("an event too large for a datagram: %v", err)
	}
	must(t, s.Stream(4).Send(e))
	want := [][]byte{heph.AppendEpoch(nil, 5)}
	for _, x := range [][2]uint32{{3, 0}, {3, 1}, {4, 0}, {4, 2}} {
		want = append(want, heph.AppendEvent(nil, &heph.Event{StreamID: x[0], Counter: x[1], Description: "x", End: 7}))
	}
	for i, w := range want {
		if g := <-packets; g.raw != string(w) {
			t.Errorf("packet %d is % x, want % x", i, g.raw, w)
		}
	}
	must(t, s.Close())
	c, err := net.Dial("udp", conn.LocalAddr().String())
	must(t, err)
	_, err = c.Write(append(heph.AppendEpoch(nil, 5), "garbage"...))
	must(t, err)
	if g := <-packets; g.raw != string(want[0]) {
		t.Errorf("the first of a datagram is % x", g.raw)
	}
	if g := <-packets; !errors.Is(g.err, heph.ErrMagic) {
		t.Errorf("garbage is %v", g.err)
	}
	must(t, conn.Close())
	must(t, <-served)
}

func TestSendTCP(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	done := make(chan map[uint32]map[uint32]bool)
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		seen := make(map[uint32]map[uint32]bool)
		for r := heph.NewReader(c); ; {
			p, err := r.Next()
			if errors.Is(err, io.EOF) {
				done <- seen
				return
			}
			if err != nil {
				t.Error(err)
				return
			}
			if seen[p.Event.StreamID] == nil {
				seen[p.Event.StreamID] = make(map[uint32]bool)
			}
			seen[p.Event.StreamID][p.Event.Counter] = true
		}
	}()
	s, err := heph.Dial(t.Context(), "tcp", l.Addr().String())
	must(t, err)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 500 {
				if err := s.Stream(uint32(i % 2)).Send(&heph.Event{Description: strings.Repeat("x", 100)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	must(t, s.Close())
	for id, seen := range <-done {
		if len(seen) != 2000 {
			t.Errorf("stream %d has %d different counters, want 2000", id, len(seen))
		}
	}
}

// half is a connection that takes half of what is written and fails.
type half struct{ bytes.Buffer }

func (h *half) Write(b []byte) (int, error) {
	n, _ := h.Buffer.Write(b[:len(b)/2])
	return n, io.ErrClosedPipe
}

func (h *half) Close() error { return nil }

func TestTornStreamTakesNoMore(t *testing.T) {
	h := new(half)
	s := heph.NewSender(h)
	for range 2 {
		if err := s.Stream(1).Send(&heph.Event{}); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the error is %v, want the connection's", err)
		}
	}
	if h.Len() != 21 {
		t.Errorf("%d bytes were written, want the first 21", h.Len())
	}
}

func TestSendAllocatesNothing(t *testing.T) {
	s := heph.NewSender(discard{})
	e := &heph.Event{Description: "x", Attributes: []heph.Attribute{{Name: "n", Value: heph.U64(1)}}}
	st := s.Stream(1)
	if n := testing.AllocsPerRun(100, func() { must(t, st.Send(e)) }); n > 1 {
		t.Errorf("Send allocates %v times", n)
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) Close() error                { return nil }
