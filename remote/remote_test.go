package remote_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/remote"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var must = expect.Must

const secret = "a token of some length"

// A running is a receiver that serves, with the results of its connections so far.
type running struct {
	t    testing.TB
	addr string // its endpoint
	dir  string
	stop func()
	done chan error

	mu sync.Mutex

	got []remote.Received
}

// receive serves a receiver at the endpoint target until the test ends.
func receive(t testing.TB, r remote.Receiver, target string) *running {
	t.Helper()
	if r.Dir == "" {
		r.Dir = t.TempDir()
	}
	l, err := r.Listen(target)
	must(t, err)
	return serve(t, r, l)
}

func serve(t testing.TB, r remote.Receiver, l net.Listener) *running {
	if r.Dir == "" {
		r.Dir = t.TempDir()
	}
	ctx, cancel := context.WithCancel(context.Background())
	v := &running{t: t, dir: r.Dir, stop: cancel, done: make(chan error, 1)}
	v.addr = l.Addr().Network() + "://" + l.Addr().String()
	if r.TLS != nil {
		v.addr = "tls://" + l.Addr().String()
	}
	r.OnReceived = func(x remote.Received) {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.got = append(v.got, x)
	}
	go func() { v.done <- r.Serve(ctx, l) }()
	t.Cleanup(func() { v.end() })
	return v
}

// end ends the receiver and returns the results of its connections.
func (v *running) end() []remote.Received {
	v.t.Helper()
	v.stop()
	if v.done != nil {
		expect.Is(v.t, <-v.done, nil, "Serve")
		v.done = nil
	}
	return v.got
}

// await waits until n connections have ended, and returns their results.
func (v *running) await(n int) (got []remote.Received) {
	v.t.Helper()
	tracetest.Eventually(v.t, fmt.Sprint(n, " connections have ended"), func() bool {
		v.mu.Lock()
		defer v.mu.Unlock()
		got = slices.Clip(v.got)
		return len(got) >= n
	})
	return got
}

// dial connects to the receiver.
func (v *running) dial() net.Conn {
	v.t.Helper()
	_, address, _ := strings.Cut(v.addr, "://")
	c, err := net.Dial("tcp", address)
	must(v.t, err)
	v.t.Cleanup(func() { c.Close() })
	return c
}

// stream encodes entries as a sender sends them.
func stream(entries ...*format.TraceEntry) []byte {
	b := wire.AppendMagic(nil, format.V1, format.IETPrefix)
	for _, e := range entries {
		b = frame(b, e)
	}
	return b
}

func frame(b []byte, e *format.TraceEntry) []byte {
	raw := format.AppendTraceEntry(nil, format.V1, e)
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(raw))), raw...)
}

func named(parent uint32, name string) *format.TraceEntry {
	return tracetest.Below(parent, tracetest.Entry(name))
}

// outline returns the entries of a file, each as "name<parent".
func outline(t testing.TB, path string) string {
	t.Helper()
	f, err := format.Open(path, &format.OpenOptions{Prefix: true})
	must(t, err)
	defer f.Close()
	var out []string
	must(t, f.Walk(0, func(id uint32, e *format.TraceEntry) error {
		s := strings.Clone(e.Metadata.Name) // the entry is only valid until the function returns
		if id > 0 {
			p, err := f.Entry(e.Parent)
			must(t, err)
			s += "<" + p.Metadata.Name
		}
		out = append(out, s)
		return nil
	}))
	return strings.Join(out, " ")
}

// files returns the names in a folder.
var files = hosttest.Names

// TestRoundTrip sends a recording, and compares the received entries with the file that the
// recorder also wrote.
func TestRoundTrip(t *testing.T) {
	for _, v := range tracetest.BothVersions {
		for _, network := range []string{"tcp", "unix"} {
			t.Run(network+"/v"+string('0'+rune(v)), func(t *testing.T) {
				target := "tcp://127.0.0.1:0"
				if network == "unix" {
					if runtime.GOOS == "windows" {
						t.Skip("a socket has no mode that keeps others out")
					}
					target = "unix://" + hosttest.Path(t, "s")
				}
				r := receive(t, remote.Receiver{}, target)
				s, err := remote.NewSender(r.addr, nil)
				must(t, err)
				path := hosttest.Path(t, "a.et")
				rec := tracetest.CreateAt(t, path, &recorder.Options{Version: v, Tee: s})
				record(t, rec, 500)
				must(t, rec.Close(t.Context()))
				got := r.await(1)[0]
				if got.Err != nil || got.Path == "" {
					t.Fatalf("received %+v", got)
				}
				st := s.Stats()
				if st.Offered != st.Sent || st.Dropped+st.Waiting+st.Moved != 0 || st.Connections != 1 || got.Entries != int64(st.Sent)+1 {
					t.Errorf("the account is %+v, and %d entries were received", st, got.Entries)
				}
				want := tracetest.ReadFile(t, path)
				have := tracetest.ReadFile(t, got.Path)
				if !bytes.Equal(want, have) {
					t.Error("what arrived differs from the file")
				}
				fi, err := os.Stat(got.Path)
				must(t, err)
				if runtime.GOOS != "windows" && fi.Mode().Perm() != 0o600 {
					t.Errorf("the file has mode %v", fi.Mode())
				}
			})
		}
	}
}

// span returns span n, whose parent is span parent. If parent is 0, the span has no parent.
func span(res *recorder.Resource, n, parent int) *tracetest.Span {
	s := &tracetest.Span{Span: recorder.Span{Ref: ref(n), Resource: res, Time: int64(n), Open: true}}
	if parent > 0 {
		s.Parent = ref(parent)
	}
	s.Entry.Metadata = format.Metadata{Name: "span " + itoa(n)}
	s.Entry.Attributes = tracetest.Attributes(
		format.AttrSpanID, string(wire.AppendHex(nil, s.Ref.SpanID[:])),
		format.AttrTime, uint64(n),
	)
	return s
}

func ref(n int) format.SpanRef {
	r := format.SpanRef{TraceID: [16]byte{1}}
	binary.BigEndian.PutUint64(r.SpanID[:], uint64(n))
	return r
}

func itoa(n int) string { return string(wire.AppendHex(nil, []byte{byte(n >> 8), byte(n)})) }

// record records a resource and n spans in chains of ten, with log records and ends.
func record(t testing.TB, rec *recorder.Recorder, n int) {
	t.Helper()
	res, err := rec.Resource(tracetest.Resource("svc"))
	must(t, err)
	for i := 1; i <= n; i++ {
		parent := i - 1
		if i%10 == 1 {
			parent = 0
		}
		must(t, tracetest.WriteSpan(rec, span(res, i, parent)))
		b := rec.Batch()
		b.Log(ref(i), int64(i))
		b.Entry(tracetest.Log("log"))
		must(t, b.Write())
		if i%3 == 0 {
			must(t, tracetest.EndSpan(rec, ref(i), nil, tracetest.Entry(format.NameSpanEnd)))
		}
	}
}
