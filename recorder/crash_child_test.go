//go:build unix

package recorder_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	mmap "github.com/edsrzf/mmap-go"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/entrybytes"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/write/inside"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/view"
)

// The crash tests start this test binary again as a program that records units. A unit is one call of the
// recorder. The program counts the units in a mapped file: how many it has begun, and how many are
// acknowledged, which means that their calls have returned no error. The parent process kills the program
// and looks for the acknowledged units.
//
// The name of unit i of goroutine g in run r is "r.g.i". This sequence of ten units repeats:
//
//	0      an open span
//	1..5   log records below span 0
//	6      a span below span 8, which is recorded later; it waits, if the durability allows it
//	7      a received log record of span 6, which waits with it
//	8      a span below span 0
//	9      the end of span 0
const (
	crashEnv      = "ENTRACE_CRASH_CHILD"
	maxGoroutines = 64
	acksSize      = 2 * 8 * maxGoroutines
)

// A crashRun describes the work of such a program.
type crashRun struct {
	run        int
	path       string
	durability recorder.Durability
	version    format.Version
	goroutines int
	units      int // number of units of each goroutine, 0: until the program is killed
	flushEvery int // number of units of a goroutine between two calls of Flush
	entries    int // maximum number of entries in a file, 0: no rotation
	large      bool
	end        string // "close", another function such as "recover", or how it dies: "exit", "panic", "fatal", "wait"
	signals    bool   // the program receives many signals
	waiting    bool   // the first span waits for a parent that is never recorded
	orphans    bool   // not a mistake: spans and log records that wait may be written without their parent
	leaks      int    // number of spans that begin before all units and end after them, see leakRef
	spoils     bool   // before unit 20, garbage is appended to the file
	replaces   bool   // before unit 20, the journal is replaced
	suspend    int    // number of units of the first goroutine between two calls of Suspend, 0: no calls
	journals   string // the folder of the journal, "": the folder of the trace, "default": Create decides

	keptAcks []byte // the counts of the program that died, for a later recovery
}

func (c *crashRun) encode() string {
	return url.Values{
		"run": {strconv.Itoa(c.run)}, "path": {c.path}, "durability": {c.durability.String()}, "version": {strconv.Itoa(int(c.version))},
		"goroutines": {strconv.Itoa(c.goroutines)}, "units": {strconv.Itoa(c.units)}, "flush": {strconv.Itoa(c.flushEvery)},
		"entries": {strconv.Itoa(c.entries)}, "large": {strconv.FormatBool(c.large)}, "end": {c.end}, "signals": {strconv.FormatBool(c.signals)}, "waiting": {strconv.FormatBool(c.waiting)},
		"journals": {c.journals}, "replaces": {strconv.FormatBool(c.replaces)}, "leaks": {strconv.Itoa(c.leaks)}, "spoils": {strconv.FormatBool(c.spoils)},
		"suspend": {strconv.Itoa(c.suspend)},
	}.Encode()
}

func (c *crashRun) bufferDir() string {
	switch c.journals {
	case "":
		return filepath.Dir(c.path)
	case "default":
		return ""
	}
	return c.journals
}

func (c *crashRun) acks() string { return fmt.Sprintf("%s.acks%d", c.path, c.run) }

func decodeCrashRun(t *testing.T, s string) *crashRun {
	v, err := url.ParseQuery(s)
	must(t, err)
	number := func(name string) int {
		n, err := strconv.Atoi(v.Get(name))
		must(t, err)
		return n
	}
	d, err := recorder.ParseDurability(v.Get("durability"))
	must(t, err)
	return &crashRun{
		run: number("run"), path: v.Get("path"), durability: d, version: format.Version(number("version")),
		goroutines: number("goroutines"), units: number("units"), flushEvery: number("flush"), entries: number("entries"),
		large: v.Get("large") == "true", end: v.Get("end"), signals: v.Get("signals") == "true", waiting: v.Get("waiting") == "true",
		journals: v.Get("journals"), replaces: v.Get("replaces") == "true", leaks: number("leaks"), spoils: v.Get("spoils") == "true",
		suspend: number("suspend"),
	}
}

// TestCrashChild is no test of its own: it is the program that the crash tests start.
func TestCrashChild(t *testing.T) {
	s := os.Getenv(crashEnv)
	if s == "" {
		return
	}
	c := decodeCrashRun(t, s)
	if c.goroutines == 1 {
		runtime.LockOSThread() // strace counts the calls of each thread separately
		defer runtime.UnlockOSThread()
	}
	if c.end == "recover" {
		_, err := recorder.Recover(c.path, "")
		must(t, err)
		return
	}
	if c.end == "finalize" {
		must(t, format.Finalize(t.Context(), strings.TrimSuffix(c.path, ".et")+".iet", c.path, &format.FinalizeOptions{RemoveSource: true}))
		return
	}
	f, err := os.OpenFile(c.acks(), os.O_RDWR, 0)
	must(t, err)
	m, err := mmap.MapRegion(f, acksSize, mmap.RDWR, 0, 0)
	must(t, err)
	if c.signals {
		defer storm()()
	}
	rec := tracetest.CreateAt(t, c.path, &recorder.Options{Version: c.version, Durability: c.durability, MaxFileEntries: uint32(c.entries), BufferDir: c.bufferDir()})
	res, err := rec.Resource(tracetest.Entry(format.NameResource, "run", c.run))
	must(t, err)
	if c.waiting {
		s := &tracetest.Span{Entry: *named(unitName(c.run, c.goroutines, 0)), Span: recorder.Span{Ref: unitRef(c.run, c.goroutines, 0), Resource: res, Time: time.Now().UnixNano()}}
		s.Parent, s.Wait = unitRef(c.run, c.goroutines, 1), true
		must(t, tracetest.WriteSpan(rec, s))
	}
	for k := range c.leaks {
		must(t, tracetest.WriteSpan(rec, c.leak(res, k)))
	}
	var wg sync.WaitGroup
	work := func(g int) {
		begun, returned := counter(m, 2*g), counter(m, 2*g+1)
		for i := 0; c.units == 0 || i < c.units; i++ {
			if c.spoils && i == 20 {
				f, err := os.OpenFile(rec.StreamPath(), os.O_WRONLY|os.O_APPEND, 0)
				must(t, err)
				_, err = f.WriteString("garbage by somebody")
				must(t, errors.Join(err, f.Close()))
			}
			if c.replaces && i == 20 {
				// Repeat it, so that no other thread makes as many system calls as this one.
				must(t, recorder.ReplaceJournal(t.Context(), rec, 5))
			}
			atomic.StoreUint64(begun, uint64(i+1))
			if err := c.unit(rec, res, g, i); err != nil {
				t.Errorf("unit %d of %d: %v", i, g, err)
				return
			}
			atomic.StoreUint64(returned, uint64(i+1))
			if c.suspend > 0 && g == 0 && i%c.suspend == c.suspend-1 {
				must(t, inside.Of(rec).Suspend(t.Context()))
			}
			if c.flushEvery > 0 && i%c.flushEvery == c.flushEvery-1 {
				expect.OK(t, rec.Flush(context.Background()))
			}
		}
	}
	for g := 1; g < c.goroutines; g++ {
		wg.Go(func() { work(g) })
	}
	work(0) // in this thread
	wg.Wait()
	begun, returned := counter(m, 2*leaker), counter(m, 2*leaker+1)
	for k := range c.leaks {
		e := named(format.NameSpanEnd)
		id := leakRef(k).SpanID
		e.Attributes = tracetest.Attributes(
			format.AttrSpanID, string(wire.AppendHex(nil, id[:])),
			format.AttrDuration, uint64(leakDuration),
		)
		atomic.StoreUint64(begun, uint64(k+1))
		must(t, tracetest.EndSpan(rec, leakRef(k), nil, e))
		atomic.StoreUint64(returned, uint64(k+1))
	}
	switch c.end {
	case "exit":
		os.Exit(3)
	case "panic":
		go func() { panic("on purpose") }()
		select {}
	case "fatal":
		debug.SetMaxStack(1 << 16)
		recurse(1)
	case "wait":
		time.Sleep(time.Hour)
	case "sync":
		must(t, rec.Sync(context.Background()))
	}
	tracetest.Close(t, rec)
}

func recurse(n int) int {
	var b [1 << 10]byte
	b[n%len(b)] = byte(n)
	if n < 0 {
		return 0 // not reached: the stack overflows first
	}
	return recurse(n+1) + int(b[n%7])
}

func counter(m mmap.MMap, i int) *uint64 { return (*uint64)(unsafe.Pointer(&m[8*i])) }

func unitName(run, g, i int) string { return fmt.Sprintf("%d.%d.%d", run, g, i) }

func unitRef(run, g, i int) format.SpanRef {
	var r format.SpanRef
	binary.BigEndian.PutUint32(r.TraceID[:], uint32(run+1))
	r.TraceID[15] = byte(g + 1)
	binary.BigEndian.PutUint64(r.SpanID[:], uint64(i+1))
	return r
}

// leaker is the number under which the spans of crashRun.leaks are counted like units of a goroutine.
// leakDuration is the duration of these spans in nanoseconds.
const (
	leaker       = maxGoroutines - 1
	leakDuration = 5
)

func leakRef(k int) format.SpanRef { return unitRef(0, leaker, k) }

// leak returns the kth span of crashRun.leaks.
func (*crashRun) leak(res *recorder.Resource, k int) *tracetest.Span {
	s := &tracetest.Span{Entry: *named(fmt.Sprint("leak ", k)), Span: recorder.Span{Ref: leakRef(k), Resource: res, Time: int64(k + 1), Open: true}}
	s.Entry.Attributes = tracetest.Attributes(
		format.AttrSpanID, string(wire.AppendHex(nil, s.Ref.SpanID[:])),
		format.AttrTime, uint64(k+1),
	)
	return s
}

// checkLeaks checks the spans of crashRun.leaks in all files together: a span has ended if its end was
// acknowledged.
func (c *crashRun) checkLeaks(t *testing.T) {
	t.Helper()
	b := readFile(t, c.acks())
	begun, returned := int(binary.NativeEndian.Uint64(b[16*leaker:])), int(binary.NativeEndian.Uint64(b[16*leaker+8:]))
	v := tracetest.OpenView(t, traces(t, filepath.Dir(c.path))...)
	found := make(map[string]int)
	for r := range v.Rows() {
		name := v.Name(r)
		k, ok := strings.CutPrefix(name, "leak ")
		if !ok || v.Role(r) != view.RoleSpan {
			continue
		}
		n, err := strconv.Atoi(k)
		must(t, err)
		found[name]++
		d, ended := v.Duration(r)
		if start, _ := v.Start(r); start != int64(n+1) || ended && (d != leakDuration || n >= begun) || !ended && n < returned {
			t.Errorf("%s began at %d and took %d; %d ends had begun, %d returned", name, start, d, begun, returned)
		}
	}
	for n := range returned {
		if name := fmt.Sprint("leak ", n); found[name] != 1 {
			t.Errorf("%s is there %d times", name, found[name])
		}
	}
}

// unit records unit i of goroutine g.
func (c *crashRun) unit(rec *recorder.Recorder, res *recorder.Resource, g, i int) error {
	e := named(unitName(c.run, g, i))
	ref, open := unitRef(c.run, g, i), unitRef(c.run, g, i-i%10)
	now := time.Now().UnixNano()
	e.Attributes = tracetest.Attributes(format.AttrTime, uint64(now))
	spanID := format.Attribute{Name: format.AttrSpanID, Value: format.StringValue(string(wire.AppendHex(nil, ref.SpanID[:])))}
	if c.large && i%10 == 3 {
		n := 3000
		if i%200 == 3 {
			n = 100_000
		}
		e.Add("x", format.StringValue(strings.Repeat("x", n)))
	}
	switch k := i % 10; k {
	case 0, 6, 8:
		s := &tracetest.Span{Entry: *e, Span: recorder.Span{Ref: ref, Resource: res, Time: now}}
		s.Entry.Attributes = append(s.Entry.Attributes, spanID)
		switch k {
		case 0:
			s.Open = true
		case 6:
			s.Parent, s.Wait = unitRef(c.run, g, i+2), true
		case 8:
			s.Parent, s.Wait = open, true
		}
		return tracetest.WriteSpan(rec, s)
	case 7:
		e.Message = format.Some("received")
		b := rec.Batch()
		b.Log(unitRef(c.run, g, i-1), now)
		b.Below(res)
		b.Entry(e)
		return b.Write()
	case 9:
		return tracetest.EndSpan(rec, open, nil, e)
	}
	e.Message = format.Some("m")
	return rec.Log(open, e)
}

// acked returns for each goroutine how many units it has begun, and how many are acknowledged.
func (c *crashRun) acked(t *testing.T) (begun, returned []int) {
	t.Helper()
	b := readFile(t, c.acks())
	for g := range c.goroutines {
		begun = append(begun, int(binary.NativeEndian.Uint64(b[16*g:])))
		returned = append(returned, int(binary.NativeEndian.Uint64(b[16*g+8:])))
	}
	return begun, returned
}

func sum(list []int) (n int) {
	for _, x := range list {
		n += x
	}
	return n
}

// command returns the command that starts the program.
func (c *crashRun) command(t *testing.T) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	must(t, os.WriteFile(c.acks(), make([]byte, acksSize), 0o600))
	cmd := exec.Command(exe, "-test.run=^TestCrashChild$", "-test.timeout=120s")
	cmd.Env = append(os.Environ(), crashEnv+"="+c.encode())
	return cmd
}

// kill starts the program and kills it after a random time. The time begins with the first acknowledged
// unit, or, if early is set, with the start of the program.
func (c *crashRun) kill(t *testing.T, early bool) {
	t.Helper()
	cmd := c.command(t)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for deadline := time.Now().Add(time.Minute); !early; {
		if _, returned := c.acked(t); sum(returned) > 0 || time.Now().After(deadline) {
			break
		}
		select {
		case err := <-ended:
			t.Fatalf("the program ended by itself: %v\n%s", err, out.String())
		case <-time.After(time.Millisecond):
		}
	}
	time.Sleep(time.Duration(rand.IntN(15_000)) * time.Microsecond)
	if early {
		time.Sleep(20 * time.Millisecond)
	}
	must(t, cmd.Process.Kill())
	<-ended
	if strings.Contains(out.String(), "FAIL") {
		t.Fatalf("it said\n%s", out.String())
	}
}

// finish runs the program to its end.
func (c *crashRun) finish(t *testing.T) (output string, err error) {
	t.Helper()
	b, err := c.command(t).CombinedOutput()
	return string(b), err
}

// traces returns the paths of the traces in a folder.
func traces(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	for _, name := range dirNames(t, dir) {
		if !strings.HasPrefix(name, ".") && (strings.HasSuffix(name, ".et") || strings.HasSuffix(name, ".iet")) {
			list = append(list, filepath.Join(dir, name))
		}
	}
	return list
}

// settled finishes the files of a dead program: with Create, or, if odd is set, with Recover before Create.
func (c *crashRun) settled(t *testing.T, odd bool) {
	t.Helper()
	if odd {
		before, readable := seen(t, c.path)
		_, err := recorder.Recover(c.path, "")
		if after, _ := seen(t, c.path); err == nil && readable && !slices.Equal(before, after) {
			t.Errorf("Open has %d entries before recovery and %d after it, or others", len(before), len(after))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, format.ErrTruncated) {
			t.Fatal(err)
		}
	}
	rec := tracetest.CreateAt(t, c.path, &recorder.Options{Version: c.version, MaxFileEntries: uint32(c.entries), BufferDir: c.bufferDir()})
	tracetest.Close(t, rec)
}

// seen returns the entries that Open finds, and whether it finds a trace. It checks that Open changes no
// file.
func seen(t *testing.T, path string) (raws []string, ok bool) {
	t.Helper()
	before := dirBytes(t, filepath.Dir(path))
	f, err := recorder.Open(path, nil)
	// A test that runs in parallel may be starting a process. That process holds the locks of this one
	// until it executes its program.
	for deadline := time.Now().Add(10 * time.Second); err == nil && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if _, missing := f.Journal(); !errors.Is(missing, format.ErrLocked) {
			break
		}
		must(t, f.Close())
		f, err = recorder.Open(path, nil)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, format.ErrTruncated) {
		return nil, false
	}
	must(t, err)
	for id := range uint32(f.Len()) {
		raw, err := entrybytes.Of(f).Append(nil, id)
		must(t, err)
		raws = append(raws, string(raw))
	}
	if n, missing := f.Journal(); n > len(raws) || errors.Is(missing, format.ErrLocked) {
		t.Errorf("%d of %d entries are from the journal, missing: %v", n, len(raws), missing)
	}
	must(t, f.Close())
	if after := dirBytes(t, filepath.Dir(path)); !maps.Equal(before, after) {
		t.Error("Open has changed a file")
	}
	return raws, true
}

// dirBytes returns the contents of the regular files in a folder.
func dirBytes(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, name := range dirNames(t, dir) {
		if fi, err := os.Lstat(filepath.Join(dir, name)); err == nil && fi.Mode().IsRegular() {
			all[name] = string(readFile(t, filepath.Join(dir, name)))
		}
	}
	return all
}

// A foundUnit says where a unit is in the files.
type foundUnit struct {
	file, parent, parentSpan string
	id                       uint32
}

// collect returns the units in all traces of a folder, by name. It reports an error of the test if Verify
// finds a problem.
func collect(t *testing.T, dir string) map[string][]foundUnit {
	t.Helper()
	units := make(map[string][]foundUnit)
	for _, name := range traces(t, dir) {
		if fi, err := os.Stat(name); err == nil && fi.Size() == 0 {
			continue // a loss of power can empty a file
		}
		expect.MustIs(t, expect.Err(recorder.Verify(name, func(problem error) { t.Errorf("%s: %v", name, problem) })), nil, "%s", name)
		f, err := recorder.Open(name, nil)
		must(t, err)
		names := make([]string, f.Len())
		must(t, f.Walk(0, func(id uint32, e *format.TraceEntry) error {
			names[id] = strings.Clone(e.Metadata.Name)
			if _, again := e.Attribute(mapping.AttrContinued); again || strings.Count(names[id], ".") != 2 {
				return nil
			}
			parentSpan, _ := e.Attribute(format.AttrParentSpanID)
			units[names[id]] = append(units[names[id]], foundUnit{name, names[e.Parent], strings.Clone(parentSpan.Text()), id})
			return nil
		}))
		must(t, f.Close())
	}
	return units
}

// check checks that the files have the units of a run. It returns how many acknowledged units are lost. A
// loss is an error, unless the unit waited and waiting was not safe.
func (c *crashRun) check(t *testing.T, units map[string][]foundUnit) (lost int) {
	t.Helper()
	begun, returned := c.acked(t)
	wrong := 0
	complain := func(f string, args ...any) {
		wrong++
		if wrong <= 10 {
			t.Errorf(f, args...)
		}
	}
	for g := range c.goroutines {
		for i := range begun[g] + 1 {
			name := unitName(c.run, g, i)
			found := units[name]
			switch {
			case len(found) > 1:
				complain("%s is there %d times: %v", name, len(found), found)
				continue
			case len(found) == 1 && i >= begun[g]:
				complain("%s was never recorded", name)
			case len(found) == 0 && i < returned[g]:
				waits := i%10 == 6 && i+2 >= returned[g] || i%10 == 7 && i+1 >= returned[g]
				if waits && c.durability != recorder.DurabilityProcess {
					lost++
				} else {
					complain("%s is lost; %d had begun, %d returned", name, begun[g], returned[g])
				}
				continue
			case len(found) == 0:
				continue
			}
			open, next, before := unitName(c.run, g, i-i%10), unitName(c.run, g, i+2), unitName(c.run, g, i-1)
			u := found[0]
			switch i % 10 {
			case 7:
				if !c.orphans && len(units[before]) == 1 && units[before][0].file == u.file && u.parent != before {
					complain("%s is below %s, want its span %s", name, u.parent, before)
				}
			case 6:
				if !c.orphans && c.durability != recorder.DurabilityPower && len(units[next]) == 1 && units[next][0].file == u.file && u.parent != next {
					complain("%s is below %s, want its parent %s", name, u.parent, next)
				} else if u.parent != next && u.parentSpan == "" {
					complain("%s is below %s and does not name its parent", name, u.parent)
				}
			case 1, 2, 3, 4, 5, 8, 9:
				if u.parent != open && (c.entries == 0 || u.parent != format.NameResource) {
					complain("%s is below %s, want %s", name, u.parent, open)
				}
			case 0:
				if u.parent != format.NameResource {
					complain("%s is below %s, want its resource", name, u.parent)
				}
			}
		}
	}
	if wrong > 10 {
		t.Errorf("and %d more", wrong-10)
	}
	return lost
}
