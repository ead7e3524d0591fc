package remote_test

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/remote"
)

// sender returns a Sender with short pauses between attempts.
func sender(t testing.TB, target string, o remote.SenderOptions) *remote.Sender {
	t.Helper()
	o.MinBackoff, o.MaxBackoff = time.Millisecond, 10*time.Millisecond
	s, err := remote.NewSender(target, &o)
	must(t, err)
	return s
}

// closed returns an address where nobody listens.
func closed(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

// balanced checks that Offered is the sum of the other counts.
func balanced(t *testing.T, s *remote.Sender) remote.SenderStats {
	t.Helper()
	st := s.Stats()
	if st.Offered != st.Sent+st.Dropped+st.Waiting {
		t.Errorf("the account %+v does not add up", st)
	}
	return st
}

// TestS13NobodyThere checks that recording works without a receiver. Entries that do not fit into the buffer must
// be counted, and Close must not wait.
func TestS13NobodyThere(t *testing.T) {
	var reports atomic.Int32
	s := sender(t, "tcp://"+closed(t), remote.SenderOptions{MaxBuffer: 10 << 10, OnError: func(error) { reports.Add(1) }})
	path := hosttest.Path(t, "a.et")
	rec := tracetest.CreateAt(t, path, &recorder.Options{Tee: s})
	record(t, rec, 1000)
	must(t, rec.Flush(context.Background()))
	for s.Stats().Offered == 0 { // a moment later, it has the entries
		time.Sleep(time.Millisecond)
	}
	st := balanced(t, s)
	if st.Dropped == 0 || st.Waiting == 0 || st.Sent > 0 {
		t.Errorf("the account is %+v", st)
	}
	time.Sleep(50 * time.Millisecond) // long enough for many attempts
	began := time.Now()
	err := rec.Close(t.Context())
	if err == nil || time.Since(began) > 4*time.Second {
		t.Errorf("Close took %v: %v", time.Since(began), err)
	}
	st = balanced(t, s)
	expect.Equal(t, st.Dropped, st.Offered, "records dropped")
	expect.Equal(t, reports.Load(), 1, "errors reported; want the first alone")
	f := tracetest.OpenFile(t, path)
	expect.Equal(t, f.Len(), int(st.Offered)+1, "entries in the file")
}

// TestS13Stall checks that a receiver that reads nothing does not delay recording, and delays Close only until the
// context of Close is done.
func TestS13Stall(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	s := sender(t, "tcp://"+l.Addr().String(), remote.SenderOptions{MaxBuffer: 1 << 20})
	rec := recorder.Stream(&recorder.Options{Tee: s})
	long := strings.Repeat("x", 32<<10)
	began := time.Now()
	for range 300 { // far more than the buffers of sockets hold
		_, err := rec.Append(&format.TraceEntry{Message: format.Some(long), Metadata: format.Metadata{Name: "e"}})
		must(t, err)
	}
	if d := time.Since(began); d > 20*time.Second {
		t.Errorf("recording took %v", d)
	}
	// A Tee gets its entries in a separate goroutine.
	tracetest.Eventually(t, "entries are dropped", func() bool { return balanced(t, s).Dropped > 0 })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began = time.Now()
	if err := rec.Close(ctx); err == nil || time.Since(began) > 4*time.Second {
		t.Errorf("Close took %v: %v", time.Since(began), err)
	}
	if st := balanced(t, s); st.Waiting > 0 {
		t.Errorf("the account is %+v", st)
	}
}

// TestS13Timeout checks that the connection is closed if a receiver reads nothing for WriteTimeout.
func TestS13Timeout(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	s := sender(t, "tcp://"+l.Addr().String(), remote.SenderOptions{MaxBuffer: 64 << 20, WriteTimeout: 20 * time.Millisecond})
	rec := recorder.Stream(&recorder.Options{Tee: s})
	long := strings.Repeat("x", 32<<10)
	for range 1000 {
		_, err := rec.Append(&format.TraceEntry{Message: format.Some(long), Metadata: format.Metadata{Name: "e"}})
		must(t, err)
	}
	tracetest.Eventually(t, "there is a second connection", func() bool { return s.Stats().Connections >= 2 })
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_ = rec.Close(ctx) // lost entries do not matter here
}

// TestS13Again closes a connection. The next connection must begin a separate trace with magic, root and resource.
// Entries whose parent was sent on the old connection must have the ids of their trace and parent.
func TestS13Again(t *testing.T) {
	for _, v := range tracetest.BothVersions {
		t.Run("v"+string('0'+rune(v)), func(t *testing.T) { again(t, v) })
	}
}

func again(t *testing.T, v format.Version) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	addr := l.Addr().String()
	conns := make(chan net.Conn, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				close(conns)
				return
			}
			conns <- c
		}
	}()
	noticed := make(chan error, 10)
	s := sender(t, "tcp://"+addr, remote.SenderOptions{OnError: func(err error) { noticed <- err }})
	rec := tracetest.CreateAt(t, hosttest.Path(t, "a.iet"), &recorder.Options{Tee: s, Version: v})
	res, err := rec.Resource(tracetest.Resource("svc"))
	must(t, err)
	must(t, tracetest.WriteSpan(rec, span(res, 1, 0)))
	must(t, tracetest.WriteSpan(rec, span(res, 2, 1)))
	must(t, rec.Flush(context.Background()))
	first := <-conns
	r := newTrace(t, first)
	for _, want := range []string{"root", "resource<root", "span 0001<resource", "span 0002<span 0001"} {
		expect.Equal(t, r.next(), want, "first connection")
	}
	first.Close()
	<-noticed
	must(t, tracetest.WriteSpan(rec, span(res, 3, 2)))
	must(t, tracetest.WriteSpan(rec, span(res, 4, 3)))
	b := rec.Batch()
	b.Log(ref(2), 5)
	b.Entry(tracetest.Log("log"))
	b.Log(ref(4), 6)
	b.Entry(&format.TraceEntry{Message: format.Some("log"), Metadata: format.Metadata{Name: "event 2"}})
	must(t, b.Write())
	must(t, tracetest.EndSpan(rec, ref(1), []format.TraceEntry{*tracetest.Entry("ev", mapping.AttrEvent, true)},
		tracetest.Entry(format.NameSpanEnd, format.AttrSpanID, "0000000000000001")))
	must(t, rec.Flush(context.Background()))
	second := <-conns
	defer second.Close()
	r = newTrace(t, second)
	const trace = " trace_id=01000000000000000000000000000000"
	for _, want := range []string{
		"root", "resource<root",
		"span 0003<resource parent_span_id=0000000000000002 span_id=0000000000000003" + trace,
		"span 0004<span 0003 span_id=0000000000000004",
		"event<resource span_id=0000000000000002" + trace,
		"event 2<span 0004",
		"ev<resource parent_span_id=0000000000000001" + trace,
		"span end<resource span_id=0000000000000001" + trace,
	} {
		expect.Equal(t, r.full(), want, "second connection")
	}
	must(t, rec.Close(t.Context()))
	expect.Equal(t, r.next(), "entrace.end<root", "at the end")
	if st := balanced(t, s); st.Moved != 4 || st.Connections != 2 || st.Sent != st.Offered {
		t.Errorf("the account is %+v", st)
	}
	must(t, l.Close())
	for c := range conns {
		c.Close()
	}
}

// A trace reads the entries of a connection.
type trace struct {
	t     *testing.T
	r     *format.Reader
	names []string
}

func newTrace(t *testing.T, c net.Conn) *trace {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	r, err := format.NewReader(bufio.NewReader(c), nil)
	must(t, err)
	expect.Equal(t, r.Format(), format.IETPrefix, "the stream")
	return &trace{t: t, r: r}
}

func (r *trace) next() string {
	name, _, _ := strings.Cut(r.full(), "\x00")
	for _, a := range []string{" parent_span_id=", " span_id=", " trace_id="} {
		name, _, _ = strings.Cut(name, a)
	}
	return name
}

// full returns the next entry with its attributes that are ids, sorted by name.
func (r *trace) full() string {
	r.t.Helper()
	e, err := r.r.Next()
	must(r.t, err)
	s := strings.Clone(e.Metadata.Name) // the entry is only valid until the next call
	r.names = append(r.names, s)
	if r.r.ID() > 0 {
		s += "<" + r.names[e.Parent]
	}
	for _, name := range []string{format.AttrParentSpanID, format.AttrSpanID, format.AttrTraceID} {
		if v, ok := e.Attribute(name); ok {
			s += fmt.Sprintf(" %s=%s", name, v.Text())
		}
	}
	return s
}

// TestDroppedParent checks that the child of a dropped entry is sent below its nearest ancestor that was sent.
func TestDroppedParent(t *testing.T) {
	r := receive(t, remote.Receiver{}, "127.0.0.1:0")
	s := sender(t, r.addr, remote.SenderOptions{MaxBuffer: 4 << 10})
	rec := tracetest.CreateAt(t, hosttest.Path(t, "a.iet"), &recorder.Options{Tee: s})
	res, err := rec.Resource(tracetest.Entry(format.NameResource))
	must(t, err)
	must(t, tracetest.WriteSpan(rec, span(res, 1, 0)))
	must(t, rec.Flush(context.Background()))
	big := span(res, 2, 1)
	big.Entry.Add("x", format.StringValue(strings.Repeat("x", 8<<10)))
	must(t, tracetest.WriteSpan(rec, big))
	must(t, tracetest.WriteSpan(rec, span(res, 3, 2)))
	if err := rec.Close(t.Context()); err == nil {
		t.Error("Close says nothing of the entry that was dropped")
	}
	got := r.await(1)[0]
	expect.Equal(t, outline(t, got.Path), "root resource<root span 0001<resource span 0003<span 0001 entrace.end<root", "the file holds")
	f := tracetest.OpenFile(t, got.Path)
	e, err := f.Entry(3)
	must(t, err)
	if v, _ := e.Attribute(format.AttrParentSpanID); v.Text() != "0000000000000002" {
		t.Errorf("parent_span_id is %q", v.Text())
	}
	if st := balanced(t, s); st.Dropped != 1 || st.Moved != 1 {
		t.Errorf("the account is %+v", st)
	}
}

// TestRotation checks that the sender makes another connection for another file, and sends the entries of this file
// on it.
func TestRotation(t *testing.T) {
	r := receive(t, remote.Receiver{}, "127.0.0.1:0")
	s := sender(t, r.addr, remote.SenderOptions{})
	rec := tracetest.CreateAt(t, hosttest.Path(t, "a.iet"), &recorder.Options{Tee: s, MaxFileEntries: 40})
	record(t, rec, 60)
	must(t, rec.Close(t.Context()))
	files := rec.Stats().Files // number of rotations
	got := r.await(files + 1)
	total := int64(0)
	for _, x := range got {
		total += x.Entries - 1
		if s := outline(t, x.Path); x.Err != nil || !strings.HasPrefix(s, "root resource<root ") || !strings.HasSuffix(s, " entrace.end<root") {
			t.Errorf("%v: %s", x.Err, s)
		}
	}
	st := balanced(t, s)
	if files == 0 || st.Sent != uint64(total) || st.Dropped+st.Moved > 0 || rec.Stats().Entries.Written != st.Offered+uint64(files)+1 {
		t.Errorf("%d rotations, %d entries were received, the recorder has %+v, the account is %+v", files, total, rec.Stats().Entries, st)
	}
}

// TestEndpoint checks which endpoints are accepted and refused.
func TestEndpoint(t *testing.T) {
	for target, ok := range map[string]bool{
		"tcp://localhost:1": true, "TLS://[::1]:1": true, "unix:///tmp/s": true, "tcp://h:1/": true,
		"": false, "localhost:1": true, "localhost": false, "tcp://localhost": true, "tls://[::1]": true, "tcp://": false, "tcp://h:": false, "unix://tmp/s": false, "unix://": false,
		"http://h:1": false, "tcp://h:1/x": false, "tcp://u:p@h:1": false, "tcp://h:1?x": false, "tcp://h:1#x": false, "\x00": false,
	} {
		if _, err := remote.NewSender(target, nil); (err == nil) != ok {
			t.Errorf("%q: %v", target, err)
		}
	}
	if _, err := remote.NewSender("tcp://h:1", &remote.SenderOptions{Token: "short"}); err == nil {
		t.Error("a token of five bytes is taken")
	}
}

// TestS12TLS checks that both sides require TLS 1.3 and the configured certificates.
func TestS12TLS(t *testing.T) {
	cert, pool := certificate(t)
	server := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	mutual := server.Clone()
	mutual.ClientAuth, mutual.ClientCAs = tls.RequireAndVerifyClientCert, pool
	for _, tt := range []struct {
		name           string
		server, client *tls.Config
		ok             bool
	}{
		{"trusted", server, &tls.Config{RootCAs: pool}, true},
		{"unknown authority", server, nil, false},
		{"client certificate", mutual, &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}}, true},
		{"no client certificate", mutual, &tls.Config{RootCAs: pool}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := receive(t, remote.Receiver{TLS: tt.server}, "127.0.0.1:0")
			s := sender(t, r.addr, remote.SenderOptions{TLS: tt.client})
			rec := recorder.Stream(&recorder.Options{Tee: s})
			record(t, rec, 100)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			err := rec.Close(ctx)
			st := balanced(t, s)
			if !tt.ok {
				if err == nil || st.Sent > 0 {
					t.Errorf("Close: %v, the account is %+v", err, st)
				}
				return
			}
			must(t, err)
			if got := r.await(1)[0]; got.Err != nil || got.Entries != int64(st.Sent)+1 {
				t.Errorf("received %+v, sent %d", got, st.Sent)
			}
		})
	}
	r := receive(t, remote.Receiver{TLS: server}, "127.0.0.1:0")
	c, err := tls.Dial("tcp", strings.TrimPrefix(r.addr, "tls://"), &tls.Config{RootCAs: pool, MaxVersion: tls.VersionTLS12})
	if err == nil {
		c.Close()
		t.Error("TLS 1.2 is taken")
	}
	r.await(1)
}

// certificate returns a certificate for 127.0.0.1 that both sides can use, and a pool that trusts it.
func certificate(t testing.TB) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	must(t, err)
	parsed, err := x509.ParseCertificate(der)
	must(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: parsed}, pool
}

// TestOneWrite checks that an entry and its length are sent in one write. ENTRACE's receiver ends a connection
// after a short pause, so there must not be one within an entry.
func TestOneWrite(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	s := sender(t, "tcp://"+l.Addr().String(), remote.SenderOptions{})
	rec := recorder.Stream(&recorder.Options{Tee: s})
	_, err = rec.Append(named(0, "a"))
	must(t, err)
	c, err := l.Accept()
	must(t, err)
	defer c.Close()
	buf := make([]byte, 1000)
	n, err := c.Read(buf)
	must(t, err)
	expect.Equal(t, string(buf[:n]), string(stream(format.Root(), named(0, "a"))), "the first write has")
	must(t, rec.Close(t.Context()))
	_, err = io.Copy(io.Discard, c)
	must(t, err)
}

// TestUnused checks that a Sender without entries makes no connection and leaves nothing behind.
func TestUnused(t *testing.T) {
	s, err := remote.NewSender("tcp://127.0.0.1:1", nil)
	must(t, err)
	must(t, s.Close(t.Context()))
	must(t, s.Close(t.Context()))
	s.Take([]recorder.TeeEntry{{ID: 1}})
	if st := balanced(t, s); st.Dropped != 1 {
		t.Errorf("the account is %+v", st)
	}
}
