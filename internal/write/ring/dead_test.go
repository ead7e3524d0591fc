package ring_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/write/ring"
	"github.com/entrace-go/entrace/recorder"
)

// TestRingKill kills processes that record to a ring. The ring then has every record whose call had
// returned, except old records, which may be evicted.
func TestRingKill(t *testing.T) {
	for round := range hosttest.InCI(3, 10) {
		dir := t.TempDir()
		path := filepath.Join(dir, "x.ring")
		cmd := exec.Command(os.Args[0], "-test.run=^TestRingChild$")
		cmd.Env = append(os.Environ(), "ENTRACE_RING="+path)
		if round%2 == 0 { // otherwise the ring is in the default place
			cmd.Env = append(cmd.Env, "ENTRACE_RING_DIR="+dir)
		}
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		var acks bytes.Buffer
		begun, read := make(chan struct{}), make(chan struct{})
		go func() {
			in := bufio.NewReader(out)
			_, _ = in.Peek(1)
			close(begun)
			_, _ = io.Copy(&acks, in)
			close(read)
		}()
		<-begun // the 20 spans are open now
		expect.Is(t, expect.Err(ring.Open(path)), format.ErrLocked, "the ring of a living process")
		time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
		d, err := ring.Open(path)
		must(t, err)
		if string(d.Note) != "a note" || d.Damaged != 0 {
			t.Errorf("round %d: the note is %q, %d damaged", round, d.Note, d.Damaged)
		}
		f := writeSnapshot(t, d.Snapshot(ring.SnapshotOptions{Providers: allProviders}))
		have := make(map[string]bool)
		open := 0
		v := tracetest.View(t, f)
		for id := range v.Rows() {
			e, err := v.Entry(id)
			must(t, err)
			if have[e.Message.Value] && e.Metadata.Name == "event" {
				t.Errorf("round %d: %q is there twice", round, e.Message.Value)
			}
			have[e.Message.Value] = true
			if e.Metadata.Name == "forever" {
				open++
			}
		}
		expect.Equal(t, open, 20, "round %d: open spans", round)
		lines := strings.Split(strings.TrimSuffix(acks.String(), "\n"), "\n")
		if len(lines) > 0 && !strings.HasSuffix(acks.String(), "\n") {
			lines = lines[:len(lines)-1]
		}
		first := max(0, len(lines)-500) // older records may be evicted
		for _, ack := range lines[first:] {
			if _, err := strconv.Atoi(ack); err == nil && !have[ack] {
				t.Errorf("round %d: %s of %d was acknowledged and is not there", round, ack, len(lines))
			}
		}
		must(t, d.Remove())
		if list, _ := filepath.Glob(filepath.Join(dir, "*")); len(list) > 0 {
			t.Errorf("left are %v", list)
		}
	}
}

func TestRingChild(t *testing.T) {
	path := os.Getenv("ENTRACE_RING")
	if path == "" {
		t.Skip("a part of TestRingKill")
	}
	g, err := ring.New(&ring.Options{Path: path, Dir: os.Getenv("ENTRACE_RING_DIR"), Bytes: 4 << 20, Note: []byte("a note")})
	must(t, err)
	g.SetBuffered(allProviders)
	s := play(t, g.Recorder())
	for i := range 20 {
		s.start(ringRef(9, i), format.SpanRef{}, "forever", 0)
	}
	for i := 0; ; i++ {
		ref := ringRef(1, 100+i)
		s.at = time.Now().UnixNano()
		s.start(ref, ringRef(9, 3), "span", 100)
		s.log(ref, strconv.Itoa(i), 100)
		fmt.Println(i)
		s.end(ref, 0, 0)
	}
}

// TestRingFault truncates the file of a ring. The ring continues in memory.
func TestRingFault(t *testing.T) {
	path := hosttest.Path(t, "x.ring")
	told := make(chan error, 10)
	g := newRing(t, &ring.Options{Path: path, Dir: filepath.Dir(path), Bytes: 4 << 20, OnError: func(err error) { told <- err }}, allProviders)
	s := play(t, g.Recorder())
	for i := range 100 {
		s.log(format.SpanRef{}, fmt.Sprint("before ", i), 1000)
	}
	sn := g.Snapshot(ring.SnapshotOptions{Providers: allProviders})
	must(t, os.Truncate(path, 0))
	for i := range 1000 {
		s.log(format.SpanRef{}, fmt.Sprint("lost ", i), 0)
	}
	if err := <-told; err == nil {
		t.Error("no error was told")
	}
	for i := range 100 {
		s.log(format.SpanRef{}, fmt.Sprint("after ", i), 0)
	}
	if got := strings.Count(tracetest.Outline(t, writeSnapshot(t, g.Snapshot(ring.SnapshotOptions{Providers: allProviders}))), "event"); got < 100 {
		t.Errorf("%d log records came later, want 100", got)
	}
	_ = writeSnapshot(t, sn) // the segments of this snapshot are gone
	if len(told) > 0 {
		t.Errorf("another error was told: %v", <-told)
	}
}

// TestRingLosesItsNames removes the file that names the ring, or the ring itself in shared memory. A new
// ring in a file replaces the lost one.
func TestRingLosesItsNames(t *testing.T) {
	for _, which := range []string{"pointer", "ring"} {
		synctest.Test(t, func(t *testing.T) {
			t.Log(which)
			path := hosttest.Path(t, "x.ring")
			told := make(chan error, 10)
			g := newRing(t, &ring.Options{Path: path, Bytes: 4 << 20, OnError: func(err error) { told <- err }}, allProviders)
			s := play(t, g.Recorder())
			s.log(format.SpanRef{}, "before", 0)
			d, err := journal.OpenDead(path, false)
			must(t, err)
			name := d.Name()
			_ = d.Close()
			if which == "pointer" {
				name = path
			}
			f, err := osfile.OpenRead(name)
			must(t, err)
			defer f.Close()
			// On Windows, os.Remove would not remove the name of a file that is open.
			must(t, osfile.Remove(f, name))
			begun := time.Now()
			if err := <-told; !errors.Is(err, recorder.ErrUnlinked) || time.Since(begun) > time.Second {
				t.Errorf("%v was told after %v", err, time.Since(begun))
			}
			s.log(format.SpanRef{}, "after", 0)
			time.Sleep(time.Minute) // the ring checks its name every second
			if len(told) > 0 {
				t.Errorf("another error was told: %v", <-told)
			}
			if d, err := journal.OpenDead(path, false); err != nil {
				t.Error("the new ring has no name:", err)
			} else {
				_ = d.Close()
			}
			expect.Has(t, tracetest.Outline(t, writeSnapshot(t, g.Snapshot(all()))), "event", "the ring has")
		})
	}
}

// TestOpenRingDamaged opens rings that are cut or changed at many places. Open returns a known error, or a
// snapshot makes a complete trace.
func TestOpenRingDamaged(t *testing.T) {
	path := hosttest.Path(t, "x.ring")
	g := newRing(t, &ring.Options{Path: path, Dir: filepath.Dir(path), Bytes: 4 << 20, Note: []byte("n")}, allProviders)
	s := play(t, g.Recorder())
	for i := range 3000 {
		ref := ringRef(1, i)
		s.start(ref, format.SpanRef{}, "span", 10)
		s.log(ref, "m", 500)
		if i%3 == 0 {
			s.end(ref, 1, 10)
		}
	}
	whole := tracetest.ReadFile(t, path)
	rnd := rand.New(rand.NewPCG(3, 4))
	check := func(what string, b []byte, wantDamage bool) {
		name := hosttest.Path(t, "y.ring")
		must(t, os.WriteFile(name, b, 0o600))
		d, err := ring.Open(name)
		if err != nil {
			var no *ring.NotRingError
			if !errors.As(err, &no) && !strings.Contains(err.Error(), "version") {
				t.Errorf("%s: %v", what, err)
			}
			return
		}
		defer func() { _ = d.Close() }()
		if wantDamage && d.Damaged == 0 {
			t.Errorf("%s: nothing is said to be damaged", what)
		}
		sn := d.Snapshot(ring.SnapshotOptions{Providers: allProviders})
		rec, err := sn.Create(hosttest.Path(t, "y.iet"), &recorder.Options{Durability: recorder.DurabilityWriteThrough})
		must(t, err)
		expect.Is(t, sn.Copy(rec), nil, "%s", what)
		tracetest.Close(t, rec)
		if r, err := recorder.Inspect(rec.Path()); err != nil || r.Damage != nil {
			t.Errorf("%s: the trace is %+v, %v", what, r, err)
		}
	}
	check("whole", whole, false)
	const step, flips = 4096 * 128, 12
	for n := 0; n <= len(whole); n += step {
		check(fmt.Sprint("cut at ", n), whole[:n], false)
	}
	for i := range flips {
		b := bytes.Clone(whole)
		for range 1 + rnd.IntN(20) {
			b[64<<10+rnd.IntN(len(b)-64<<10)] ^= byte(1 + rnd.IntN(255))
		}
		check(fmt.Sprint("flipped ", i), b, false)
	}
	b := bytes.Clone(whole)
	b[64<<10+40] ^= 1 // a bit of the first record in the first segment
	check("one bit", b, true)
}
