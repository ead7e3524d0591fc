//go:build conformance

package conformance_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/read/entryjson"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/remote"
)

// TestReceiveTheirs sends entries from the crate's own client to this module's receiver. It compares the received
// file with the file that the crate writes for the same program without a network.
func TestReceiveTheirs(t *testing.T) {
	for _, v := range versions {
		t.Run("v"+number(v), func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			got := make(chan remote.Received, 1)
			r := remote.Receiver{Dir: t.TempDir(), OnReceived: func(x remote.Received) { got <- x }}
			l, err := r.Listen("127.0.0.1:0")
			must(t, err)
			done := make(chan error, 1)
			go func() { done <- r.Serve(ctx, l) }()
			peer(t, "send", number(v), l.Addr().String())
			x := <-got
			cancel()
			if err := <-done; err != nil || x.Err != nil {
				t.Fatalf("%v, %+v", err, x)
			}
			theirs := hosttest.Path(t, "theirs.et")
			peer(t, "write", number(v), "et", theirs)
			if !bytes.Equal(read(t, x.Path), read(t, theirs)) {
				t.Error("what was received differs from what the crate writes")
			}
			compare(t, v, x.Path)
			t.Logf("%d entries, %d bytes", x.Entries, x.Bytes)
		})
	}
}

// TestSendOurs sends entries from this module's sender to the crate's receiver, which the crate's viewer uses. It
// compares the received entries with the file that was recorded at the same time.
func TestSendOurs(t *testing.T) {
	for _, v := range versions {
		t.Run("v"+number(v), func(t *testing.T) {
			// The crate's receiver needs the number of entries.
			_, n := recordAndSend(t, v, "")
			cmd := exec.Command(peerPath, "listen", number(v), strconv.Itoa(n))
			var errs bytes.Buffer
			cmd.Stderr = &errs
			pipe, err := cmd.StdoutPipe()
			must(t, err)
			must(t, cmd.Start())
			out := bufio.NewReader(pipe)
			addr, err := out.ReadString('\n')
			must(t, err)
			name, _ := recordAndSend(t, v, "tcp://"+strings.TrimSpace(addr))
			rest, err := io.ReadAll(out)
			must(t, err)
			if err := cmd.Wait(); err != nil {
				t.Fatalf("%v: %s", err, &errs)
			}
			all := lines(rest)
			if len(all) != 2*n {
				t.Fatalf("the crate prints %d lines, want %d entries and their children", len(all), n)
			}
			f := tracetest.OpenFile(t, name)
			err = f.Walk(0, func(id uint32, e *format.TraceEntry) error {
				// The entry that marks the end contains a time, which differs.
				if e.Metadata.Name == mapping.NameEnd {
					return nil
				}
				ours := entryjson.Append(nil, int64(id), e)
				if got, want := parse(t, all[id]), parse(t, ours); !reflect.DeepEqual(got, want) {
					t.Errorf("entry %d:\nthey read %s\n  we wrote %s", id, all[id], ours)
				}
				return nil
			})
			must(t, err)
			kids := lines(peer(t, "children", number(v), name))
			if !reflect.DeepEqual(kids, all[n:]) {
				t.Error("the crate finds other children in what was sent than in the file")
			}
			t.Logf("%d entries", n)
		})
	}
}

// recordAndSend records to a file and to an endpoint. It returns the name of the file and the number of its
// entries. While it records, it pauses for more than 50 ms, after which the crate gives up on an incomplete entry.
func recordAndSend(t *testing.T, v format.Version, endpoint string) (name string, n int) {
	t.Helper()
	name = hosttest.Path(t, "ours.iet")
	o := &recorder.Options{Version: v}
	var s *remote.Sender
	if endpoint != "" {
		var err error
		s, err = remote.NewSender(endpoint, nil)
		must(t, err)
		o.Tee = s
	}
	rec, err := recorder.Create(name, o)
	must(t, err)
	res, err := rec.Resource(&format.TraceEntry{Message: format.Some("svc"), Metadata: format.Metadata{Name: format.NameResource}})
	must(t, err)
	for i := range 2000 {
		sp := &tracetest.Span{Span: recorder.Span{Resource: res, Time: int64(i), Open: true}}
		sp.Ref = format.SpanRef{TraceID: [16]byte{1}, SpanID: [8]byte{1, byte(i >> 8), byte(i)}}
		if i%7 > 0 {
			sp.Parent = format.SpanRef{TraceID: [16]byte{1}, SpanID: [8]byte{1, byte((i - 1) >> 8), byte(i - 1)}}
		}
		sp.Entry.Metadata = format.Metadata{Name: fmt.Sprint("span ü ", i), Level: format.LevelWarn}
		sp.Entry.Attributes = []format.Attribute{
			{Name: format.AttrSpanID, Value: format.StringValue(string(wire.AppendHex(nil, sp.Ref.SpanID[:])))},
			{Name: "a", Value: format.BytesValue(bytes.Repeat([]byte{0}, i%300))},
			{Name: "b", Value: format.FloatValue(float64(i) / 3)},
		}
		if i%1000 == 999 {
			sp.Entry.Message = format.Some(strings.Repeat("long ", 200_000))
		}
		must(t, tracetest.WriteSpan(rec, sp))
		if i%500 == 250 {
			must(t, rec.Flush(context.Background()))
			time.Sleep(120 * time.Millisecond)
		}
	}
	must(t, rec.Close(t.Context()))
	f := tracetest.OpenFile(t, name)
	if s != nil {
		if st := s.Stats(); st.Sent != uint64(f.Len())-1 || st.Dropped+st.Moved > 0 || st.Connections != 1 {
			t.Errorf("the account is %+v", st)
		}
	}
	return name, f.Len()
}
