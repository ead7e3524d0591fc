//go:build unix

package recorder_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	"golang.org/x/sys/unix"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/entrybytes"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
)

// TestCutAtEveryByte cuts an IET at each byte and recovers it in place.
func TestCutAtEveryByte(t *testing.T) {
	whole := wire.AppendMagic(nil, format.V2, format.IET)
	ends := []int{}
	for i := range 4 {
		e := named(fmt.Sprint("entry ", i))
		if i == 0 {
			e = format.Root()
		}
		e.Add("a", format.StringValue("v"))
		whole = format.AppendTraceEntry(whole, format.V2, e)
		ends = append(ends, len(whole))
	}
	name := filepath.Join(t.TempDir(), "a.iet")
	for n := range len(whole) + 1 {
		must(t, os.WriteFile(name, whole[:n], 0o600))
		entries, good := 0, wire.MagicSize
		for i, end := range ends {
			if end <= n {
				entries, good = i+1, end
			}
		}
		r, err := recorder.Recover(name, "")
		if n < wire.MagicSize {
			expect.Is(t, err, format.ErrTruncated, "%d bytes", n)
			continue
		}
		must(t, err)
		reason := mapping.CutTorn
		switch {
		case good == n:
			reason = mapping.CutClean
		case len(bytes.Trim(whole[good:n], "\x00")) == 0:
			reason = mapping.CutZeroTail
		}
		if r.Entries != entries || int(r.GoodBytes) != good || entries > 0 && r.Reason != reason {
			t.Errorf("%d bytes: Recover says %+v, want %d entries in %d bytes, %s", n, r, entries, good, reason)
		}
		if got := readFile(t, name); !bytes.Equal(got, whole[:good]) {
			t.Errorf("%d bytes: %d are left, want %d", n, len(got), good)
		}
		again, err := recorder.Recover(name, "")
		must(t, err)
		if again.Size != int64(good) || again.Broken != "" || len(dirNames(t, filepath.Dir(name))) != 1 {
			t.Errorf("%d bytes: Recover again says %+v", n, again)
		}
	}
}

// TestMoreThan4GiB reads a sparse IET of more than 4 GiB.
func TestMoreThan4GiB(t *testing.T) {
	if strconv.IntSize == 32 || os.Getenv(soakEnv) == "" {
		t.Skip("takes long: set " + soakEnv)
	}
	name := filepath.Join(t.TempDir(), "big.iet")
	f, err := os.Create(name)
	must(t, err)
	defer f.Close()
	const large, entries = 60 << 20, 72
	e := named("large")
	e.Attributes = tracetest.Attributes("x", make([]byte, large))
	b := format.AppendTraceEntry(nil, format.V1, e)
	head := b[:len(b)-large]
	off := int64(0)
	put := func(b []byte) {
		_, err := f.WriteAt(b, off)
		must(t, err)
		off += int64(len(b))
	}
	put(wire.AppendMagic(nil, format.V1, format.IET))
	put(format.AppendTraceEntry(nil, format.V1, format.Root()))
	for range entries {
		put(head)
		off += large
	}
	put(format.AppendTraceEntry(nil, format.V1, named("last")))
	g := tracetest.Open(t, name)
	last, err := g.Entry(entries + 1)
	if err != nil || last.Metadata.Name != "last" || g.Len() != entries+2 || g.Size() != off || off < 1<<32 {
		t.Errorf("entry %d of %d is %v, %v", entries+1, g.Len(), last, err)
	}
	et := filepath.Join(t.TempDir(), "big.et")
	must(t, format.Finalize(t.Context(), name, et, nil))
	h := tracetest.Open(t, et)
	last, err = h.Entry(entries + 1)
	if err != nil || last.Metadata.Name != "last" || h.Len() != entries+2 {
		t.Errorf("in the ET entry %d of %d is %v, %v", entries+1, h.Len(), last, err)
	}
}

func TestCreateNotRegular(t *testing.T) {
	for _, name := range []string{"app.iet", "app.et", "app.iet.buffer"} {
		dir := t.TempDir()
		must(t, unix.Mkfifo(filepath.Join(dir, name), 0o600))
		done := make(chan error, 1)
		go func() {
			rec, err := recorder.Create(filepath.Join(dir, "app.et"), nil)
			if err == nil {
				err = rec.Close(context.Background())
			}
			done <- err
		}()
		select {
		case err := <-done:
			expect.Is(t, err, format.ErrNotRegular, "%s is a pipe", name)
		case <-time.After(20 * time.Second):
			t.Fatalf("%s is a pipe: Create hangs", name)
		}
	}
	// If the name of the buffer is a symbolic link, Create does not write to the target of the link.
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	must(t, os.WriteFile(target, []byte("precious"), 0o600))
	must(t, os.Symlink(target, filepath.Join(dir, "app.iet.buffer")))
	rec, err := recorder.Create(filepath.Join(dir, "app.et"), nil)
	if err == nil {
		_ = rec.Close(context.Background()) // Create may ignore the link
	}
	if got := string(readFile(t, target)); got != "precious" {
		t.Errorf("what the link led to is %q now", got)
	}
}

// TestRecoverWithoutRights recovers files behind links, which Recover must not change. It reports whole files, and
// returns an error for others.
func TestRecoverWithoutRights(t *testing.T) {
	dir := t.TempDir()
	iet := deadStream(t, filepath.Join(dir, "stream.iet"))
	must(t, format.Finalize(t.Context(), filepath.Join(dir, "stream.iet"), filepath.Join(dir, "stream.et"), nil))
	et := readFile(t, filepath.Join(dir, "stream.et"))
	for _, x := range []struct {
		name string // of the link
		file []byte
		ask  string // the name that the user says
		want error
	}{
		{"whole.iet", iet, "whole.iet", nil},
		{"whole.et", et, "whole.et", nil},
		{"torn.iet", iet[:len(iet)-3], "torn.iet", format.ErrNotRegular},
		{"torn.et", et[:len(et)-3], "torn.et", format.ErrNotRegular},
		{"stays.iet", iet, "stays.et", format.ErrNotRegular}, // it has no mark, so an ET must be made
	} {
		target := filepath.Join(t.TempDir(), "target")
		must(t, os.WriteFile(target, x.file, 0o600))
		must(t, os.Symlink(target, filepath.Join(dir, x.name)))
		was := dirNames(t, dir)
		r, err := recorder.Recover(filepath.Join(dir, x.ask), "")
		if !errors.Is(err, x.want) || err == nil && (r.Reason != mapping.CutClean || r.Output != r.Name) {
			t.Errorf("%s: %+v, %v, want %v", x.name, r, err, x.want)
		}
		if !bytes.Equal(readFile(t, target), x.file) || !slices.Equal(dirNames(t, dir), was) {
			t.Errorf("%s: Recover has changed files", x.name)
		}
	}
}

func TestNoPlaceForTheFile(t *testing.T) {
	expect.Is(t, expect.Err(recorder.Create(filepath.Join(t.TempDir(), "missing", "app.et"), nil)), fs.ErrNotExist, "in a folder that is not there")
	if s := os.Getenv(limitEnv); s == "files" {
		var l unix.Rlimit
		must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &l))
		must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: l.Max}))
		_, err := recorder.Create(os.Getenv(pathEnv), nil)
		must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &l))
		expect.Is(t, err, syscall.EMFILE, "without descriptors")
		return
	}
	dir := t.TempDir()
	if out, err := limited(t, "files", filepath.Join(dir, "app.et")); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if names := dirNames(t, dir); len(names) > 0 {
		t.Errorf("the folder has %q", names)
	}
	if os.Geteuid() == 0 {
		return // root can write to every folder
	}
	must(t, os.Chmod(dir, 0o500))
	expect.Is(t, expect.Err(recorder.Create(filepath.Join(dir, "app.et"), nil)), fs.ErrPermission, "in a folder that is read only")
}

// limited runs this test in another process, which sets the given limit.
func limited(t *testing.T, limit, path string) (output string, err error) {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe, "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), limitEnv+"="+limit, pathEnv+"="+path)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestPermissions checks that other users cannot read the files.
func TestPermissions(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	dir := t.TempDir()
	private := func(what string) {
		t.Helper()
		for _, name := range dirNames(t, dir) {
			fi, err := os.Lstat(filepath.Join(dir, name))
			if errors.Is(err, fs.ErrNotExist) {
				continue // the file was finished meanwhile and has another name
			}
			must(t, err)
			if fi.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s: %s has mode %v", what, name, fi.Mode())
			}
		}
	}
	rec := tracetest.CreateAt(t, filepath.Join(dir, "app.et"), &recorder.Options{MaxFileEntries: 30})
	private("created")
	for range 100 {
		writeNamed(t, rec, "x")
	}
	private("rotated")
	must(t, rec.Close(context.Background()))
	private("closed")
	deadStream(t, filepath.Join(dir, "broken.iet"), 77, 0, 1)
	_, err := recorder.Recover(filepath.Join(dir, "broken.iet"), "")
	must(t, err)
	_, err = recorder.Recover(filepath.Join(dir, "broken.iet"), filepath.Join(dir, "copy.et"))
	must(t, err)
	private("recovered")
}

// TestHostileServiceName checks that the trace is in its folder for any name of the service, and that
// services with different names have different files.
func TestHostileServiceName(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "in")
	must(t, os.Mkdir(dir, 0o700))
	seen := make(map[string]string)
	for _, service := range []string{
		"../../x", "a/b", "a%2Fb", "a\x00b", "a\nb", "CON", "nul.txt", strings.Repeat("x", 300), strings.Repeat("x", 299) + "y", " ", "..", ".", ".hidden",
		"ü", "\xff", "a:b", `a\b`, "COM1", "a b", "-rf", "~",
	} {
		p, err := entrace.Setup(t.Context(), exporter.WithPath(filepath.Join(dir, "{service}.et")), entrace.WithoutGlobals(),
			entrace.WithResource(resource.NewSchemaless(attribute.String("service.name", service))))
		if err != nil {
			t.Errorf("service %q: %v", service, err)
			continue
		}
		path := p.Recorder().Path()
		base := filepath.Base(path)
		if in, _ := filepath.EvalSymlinks(dir); filepath.Dir(path) != in || len(base) > 120 || strings.HasPrefix(base, ".") || strings.Trim(strings.ToLower(base), "abcdefghijklmnopqrstuvwxyz0123456789._-%~") != "" {
			t.Errorf("service %q is recorded to %q", service, path)
		}
		if other, taken := seen[strings.ToLower(base)]; taken {
			t.Errorf("services %q and %q have one file %s", service, other, base)
		}
		seen[strings.ToLower(base)] = service
		must(t, p.Shutdown(context.Background()))
	}
	expect.Len(t, dirNames(t, filepath.Dir(dir)), 1, "beside the folder")
}

func TestHugeAttributes(t *testing.T) {
	size, attributes := 200<<20, 1_000_000
	if testing.Short() {
		size, attributes = 16<<20, 100_000
	}
	for _, v := range []format.Version{format.V1, format.V2} {
		rec := tracetest.Create(t, "app.et", &recorder.Options{Version: v, MaxEntrySize: 1 << 20})
		e := named("large")
		e.Attributes = tracetest.Attributes("x", strings.Repeat("ü", size/2))
		must(t, rec.Log(format.SpanRef{}, e))
		e = named("many")
		for i := range attributes {
			e.Add("a"+strconv.Itoa(i), format.BoolValue(true))
		}
		must(t, rec.Log(format.SpanRef{}, e))
		tracetest.Close(t, rec)
		must(t, expect.Err(recorder.Verify(rec.Path(), func(problem error) { t.Errorf("version %d: %v", v, problem) })))
		f := tracetest.Open(t, rec.Path())
		for id := uint32(1); id <= 2; id++ {
			raw, err := entrybytes.Of(f).Append(nil, id)
			must(t, err)
			mark, ok, err := f.Attribute(id, mapping.AttrTruncated)
			if len(raw) > 1<<20 || err != nil || !ok || !mark.Bool() {
				t.Errorf("version %d: entry %d has %d bytes, mark %v, %v", v, id, len(raw), ok, err)
			}
		}
	}
}

// A badValue panics in each of its methods.
type badValue struct{}

func (badValue) LogValue() slog.Value { panic("on purpose") }
func (badValue) Error() string        { panic("on purpose") }

// TestPanickingValue checks that a panic of a value loses only this value, and leaves no lock held.
func TestPanickingValue(t *testing.T) {
	rec := tracetest.Create(t, "app.et", nil)
	log := slog.New(slogadapter.New(rec, nil))
	log.Info("first", "bad", badValue{}, "good", 1)
	log.Info("second", "bad", error(badValue{}))
	log.Info("third")
	tracetest.Close(t, rec)
	f := tracetest.Open(t, rec.Path())
	expect.Equal(t, f.Len(), 5, "entries")
	a, _, err := f.Attribute(1, "bad")
	if err != nil || !strings.Contains(a.Text(), "LogValue panicked") { // slog writes this text
		t.Errorf("the value is %q, %v", a.Text(), err)
	}
	a, _, err = f.Attribute(2, "bad")
	if err != nil || !strings.HasPrefix(a.Text(), "!PANIC: on purpose") && !strings.Contains(a.Text(), "LogValue panicked") {
		t.Errorf("the error is %q, %v", a.Text(), err)
	}
	if a, _, _ := f.Attribute(1, "good"); !a.Equal(format.I64Value(1)) {
		t.Errorf("the value beside is %s", a.AppendDecimal(nil))
	}
}

// TestErrorIsLogged checks that OnError can log through the recorder that failed.
func TestErrorIsLogged(t *testing.T) {
	if s := os.Getenv(limitEnv); s != "" {
		signal.Ignore(syscall.SIGXFSZ)
		for _, d := range durabilities {
			var log *slog.Logger
			var told atomic.Int32
			rec, err := recorder.Create(os.Getenv(pathEnv)+d.String(), &recorder.Options{Durability: d, OnError: func(err error) {
				if strings.Contains(err.Error(), "journal") {
					return // the limit also applies to the file of the journal
				}
				told.Add(1)
				log.Error("recording fails", "error", err)
			}})
			must(t, err)
			log = slog.New(slogadapter.New(rec, nil))
			var old unix.Rlimit
			must(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &old))
			must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 40, Max: old.Max}))
			for range 10 {
				log.Info("x")
				_ = rec.Flush(context.Background()) // it fails as intended
			}
			must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &old))
			eventually(t, d.String()+": OnError is told once in each episode", func() bool { return told.Load() == 1 })
			log.Info("y")
			must(t, rec.Flush(context.Background()))
			recorder.Balanced(t, rec.Stats())
			must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 40, Max: old.Max}))
			log.Info("z")
			_ = rec.Flush(context.Background()) // it fails as intended
			must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &old))
			eventually(t, d.String()+": OnError is told once in each episode", func() bool { return told.Load() == 2 })
			_ = rec.Close(context.Background()) // returns the error of the last Flush
		}
		return
	}
	if out, err := limited(t, "40", filepath.Join(t.TempDir(), "app")); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestCloseRaces calls Close several times at once while other goroutines record.
func TestCloseRaces(t *testing.T) {
	for _, d := range durabilities {
		t.Run(d.String(), func(t *testing.T) {
			rec := tracetest.CreateAt(t, filepath.Join(t.TempDir(), "app.et"), &recorder.Options{Durability: d, MaxFileEntries: 500})
			var wg sync.WaitGroup
			var taken, refused, begun atomic.Int64
			for range 8 {
				wg.Go(func() {
					for {
						begun.Add(1)
						err := logNamed(rec, "x")
						if errors.Is(err, recorder.ErrClosed) {
							refused.Add(1)
							return
						}
						expect.OK(t, err)
						taken.Add(1)
						_ = rec.Stats()
					}
				})
			}
			eventually(t, "1000 calls", func() bool { return begun.Load() >= 1000 })
			for range 3 {
				wg.Go(func() { _ = rec.Close(context.Background()) })
			}
			wg.Wait()
			tracetest.Close(t, rec)
			st := rec.Stats()
			recorder.Balanced(t, st)
			if st.Entries.Dropped.Closed != uint64(refused.Load()) || st.Entries.Waiting != 0 {
				t.Errorf("%d were refused; %+v", refused.Load(), st.Entries)
			}
			found := int64(0)
			for _, name := range traces(t, filepath.Dir(rec.Path())) {
				f := tracetest.Open(t, name)
				must(t, f.Walk(1, func(_ uint32, e *format.TraceEntry) error {
					if e.Metadata.Name == "x" {
						found++
					}
					return nil
				}))
			}
			if found != taken.Load() {
				t.Errorf("%d entries are there, %d were taken", found, taken.Load())
			}
		})
	}
}

// TestAccountIsExact records from 64 goroutines with every durability, with rotation and a limit for
// waiting spans. The counts must match the files.
func TestAccountIsExact(t *testing.T) {
	for _, d := range durabilities {
		for _, entries := range []uint32{0, 700} {
			t.Run(fmt.Sprint(d, " ", entries), func(t *testing.T) {
				rec := tracetest.CreateAt(t, filepath.Join(t.TempDir(), "app.et"), &recorder.Options{Durability: d, MaxFileEntries: entries, MaxWaitingSpans: 5, MaxBlock: time.Minute})
				res, err := rec.Resource(named(format.NameResource))
				must(t, err)
				c := &crashRun{durability: d, goroutines: 64, large: true, entries: int(entries)}
				var wg sync.WaitGroup
				rounds := 40
				if d == recorder.DurabilityPower {
					rounds = 20
				}
				for g := range c.goroutines {
					wg.Go(func() {
						for i := range rounds {
							expect.Is(t, c.unit(rec, res, g, i), nil, "unit %d of %d", i, g)
							if i%10 == 0 {
								recorder.Balanced(t, rec.Stats())
							}
							if i%17 == 0 {
								must(t, rec.Flush(context.Background()))
							}
						}
					})
				}
				wg.Wait()
				recorder.Balanced(t, rec.Stats())
				must(t, rec.Close(context.Background()))
				st := rec.Stats()
				recorder.Balanced(t, st)
				if st.Entries.Dropped.Total()+st.Spans.Dropped.Total() != 0 || st.Spans.Waiting != 0 || st.Spans.Offered < uint64(64*rounds*3/10) {
					t.Errorf("the account is %+v", st)
				}
				total := uint64(0)
				for _, name := range traces(t, filepath.Dir(rec.Path())) {
					total += uint64(tracetest.Open(t, name).Len())
				}
				if total != st.Entries.Written {
					t.Errorf("%d entries are in the files, %d were written", total, st.Entries.Written)
				}
				units := collect(t, filepath.Dir(rec.Path()))
				for g := range c.goroutines {
					for i := range rounds {
						if n := len(units[unitName(0, g, i)]); n != 1 {
							t.Errorf("unit %d of %d is there %d times", i, g, n)
						}
					}
				}
			})
		}
	}
}

// TestFullDiskAtFinalize makes the disk full after various numbers of bytes of the ET. Each time, only the
// IET remains.
func TestFullDiskAtFinalize(t *testing.T) {
	if s := os.Getenv(limitEnv); s != "" {
		signal.Ignore(syscall.SIGXFSZ)
		step, err := strconv.Atoi(s)
		must(t, err)
		dir := filepath.Dir(os.Getenv(pathEnv))
		iet := filepath.Join(dir, "app.iet")
		whole := readFile(t, iet)
		et := filepath.Join(dir, "app.et")
		for n := 0; ; n += step {
			restore := hosttest.LimitFiles(t, int64(n))
			err := format.Finalize(t.Context(), iet, et, &format.FinalizeOptions{RemoveSource: true})
			restore()
			if err == nil {
				return
			}
			if step, ok := errors.AsType[*format.FinalizeError](err); !ok || step.Step != "write" || !errors.Is(err, syscall.EFBIG) {
				t.Errorf("%d bytes: %v", n, err)
			}
			if names := dirNames(t, dir); len(names) != 1 || !bytes.Equal(readFile(t, iet), whole) {
				t.Fatalf("%d bytes: the folder has %q", n, names)
			}
		}
	}
	dir := t.TempDir()
	deadStream(t, filepath.Join(dir, "app.iet"))
	if out, err := limited(t, "1", filepath.Join(dir, "app.et")); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	wantWholeET(t, filepath.Join(dir, "app.et"))
}

func wantWholeET(t *testing.T, name string) {
	t.Helper()
	f := tracetest.Open(t, name)
	expect.Equal(t, tracetest.Outline(t, f), "root(whole)", "%s has", name)
	must(t, f.Close()) // not only at the end of the test: some callers unmount the disk
}

func TestConvertRoundTrip(t *testing.T) {
	for _, v := range []format.Version{format.V1, format.V2} {
		var sizes []int
		for n := range 40 {
			sizes = append(sizes, n)
		}
		for _, n := range append(sizes, 250, 251, 252, 1000) {
			dir := t.TempDir()
			b := wire.AppendMagic(nil, v, format.IET)
			for i := range n {
				e := named(fmt.Sprint("entry ", i))
				if i == 0 {
					e = format.Root()
				} else {
					e.Parent = uint32(i / 2)
				}
				if i%100 == 99 {
					e.Message = format.Some(strings.Repeat("m", 1<<16))
				}
				b = format.AppendTraceEntry(b, v, e)
			}
			in := filepath.Join(dir, "a.iet")
			must(t, os.WriteFile(in, b, 0o600))
			from := in
			for i, f := range []format.StorageFormat{format.ET, format.IETPrefix, format.ET, format.IET} {
				to := filepath.Join(dir, fmt.Sprint(i, ".", f))
				tr, err := convert.Open(t.Context(), []string{from}, &convert.OpenOptions{Once: true})
				must(t, err)
				must(t, errors.Join(tr.EncodeFile(t.Context(), to, convert.Format(f.String()), nil), tr.Close()))
				from = to
			}
			if !bytes.Equal(readFile(t, from), b) {
				t.Errorf("version %d: an IET of %d entries is not what it was", v, n)
			}
		}
	}
}
