//go:build unix

package control_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

// aRing returns the name and the content of the file of a ring with some records.
func aRing(t *testing.T) (name string, data []byte) {
	t.Helper()
	dir := t.TempDir()
	cfg := persistent(dir)
	cfg.Ring.Bytes = 4 << 20
	r := newRig(t, control.Options{Config: cfg, BufferDir: dir})
	for n := range 2000 {
		ctx, span := r.tracer.Start(t.Context(), "work")
		r.log.InfoContext(ctx, "load", "g", 0, "n", n)
		if n%3 > 0 {
			span.End()
		}
	}
	r.log.Info("the needle of the haystack")
	rings, err := filepath.Glob(filepath.Join(dir, "ring-*.ring"))
	must(t, err)
	if len(rings) != 1 {
		t.Fatalf("there are %q", rings)
	}
	data = tracetest.ReadFile(t, rings[0])
	r.end()
	r.quiet()
	return filepath.Base(rings[0]), data
}

// inTime stops the test if fn does not return in time.
func inTime(t *testing.T, what string, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s takes for ever", what)
	}
}

// TestTornRing recovers rings with various kinds of damage.
func TestTornRing(t *testing.T) {
	if testing.Short() {
		t.Skip("a long computation of one goroutine")
	}
	name, whole := aRing(t)
	rnd := rand.New(rand.NewPCG(10, 10))
	used := bytes.LastIndex(whole, []byte("the needle of the haystack"))
	if used < 0 {
		t.Fatal("the last record is not in the file")
	}
	type damage struct {
		what string
		data []byte
		told bool // recovery must report damage
	}
	flip := func(at int) []byte {
		b := bytes.Clone(whole)
		b[at] ^= byte(1 + rnd.IntN(255))
		return b
	}
	list := []damage{
		{"none", whole, false}, {"one record", flip(used), true}, {"all", bytes.Repeat([]byte{0xff}, len(whole)), true},
	}
	for i := range hosttest.Times(16, 1000) {
		b := bytes.Clone(whole)
		for range 1 + rnd.IntN(30) {
			b[rnd.IntN(used)] ^= byte(1 + rnd.IntN(255))
		}
		list = append(list, damage{fmt.Sprint("flipped ", i), b, false})
	}
	for n := 0; n < len(whole); n += hosttest.Times(256, 4) << 10 {
		list = append(list, damage{fmt.Sprint("cut at ", n), whole[:n], false})
	}
	for i := range hosttest.Times(5, 50) {
		b := bytes.Clone(whole)
		for range 20 { // clear pages, which a loss of power can do
			clear(b[rnd.IntN(used)>>12<<12:][:4096])
		}
		list = append(list, damage{fmt.Sprint("pages without content ", i), b, false})
	}
	for i, d := range list {
		dir := hosttest.MemoryDir(t)
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, d.data, 0o600))
		inTime(t, d.what, func() {
			told := false
			if i%4 == 0 {
				r := rigOf(t, base(dir, control.Logs))
				r.end()
				for _, path := range crashTraces(t, dir) {
					w := links(t, path)
					told = told || w.attr(w.head, "damaged") != ""
				}
				told = told || len(r.errors()) > 0
			} else {
				crashes, _, err := recovered(dir)
				if err != nil || len(crashes) > 1 {
					t.Errorf("%s: Recover finds %+v, %v", d.what, crashes, err)
				}
				for _, c := range crashes {
					told = told || c.Damaged > 0 || c.Err != nil
					if c.Output != "" {
						links(t, c.Output)
					}
				}
			}
			if d.told && !told || d.what == "none" && told {
				t.Errorf("%s: damage is told: %t", d.what, told)
			}
		})
		crashes := crashTraces(t, dir)
		if d.what == "none" || d.what == "one record" {
			expect.MustLen(t, crashes, 1, "%s: the traces", d.what)
			w := links(t, crashes[0])
			want := map[string]int{"load": 2000, "the needle of the haystack": 1}
			if d.told {
				delete(want, "the needle of the haystack")
			}
			for text, n := range want {
				expect.Equal(t, w.messages()[text], n, "%s: records %q", d.what, text)
			}
		}
	}
}

// TestNotRings checks that files, folders and links that have names of rings but are not rings remain unchanged.
func TestNotRings(t *testing.T) {
	name, whole := aRing(t)
	stem := strings.TrimSuffix(name, ".ring")
	dir := t.TempDir()
	const text = "this is the diary of somebody"
	files := map[string][]byte{
		name: []byte(text), stem + "1.ring": bytes.Repeat([]byte(text), 10_000),
		"ring-.ring": []byte("x"), "other.ring": whole, "ring-x.txt": []byte(text), "notes.crash": []byte(text),
	}
	for name, data := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	must(t, os.Mkdir(filepath.Join(dir, "ring-folder.ring"), 0o700))
	outside := hosttest.Path(t, name)
	must(t, os.WriteFile(outside, whole, 0o600))
	must(t, os.Symlink(outside, filepath.Join(dir, "ring-link.ring")))
	inTime(t, "it", func() {
		r := rigOf(t, base(dir, control.Logs))
		r.end()
		if n := len(r.errors()); n != 3 {
			t.Errorf("%d errors are told, want one for each of the 3 files: %v", n, r.errors())
		}
		crashes, _, err := recovered(dir)
		if len(crashes) != 3 || err != nil {
			t.Errorf("Recover finds %+v, %v", crashes, err)
		}
		for _, c := range crashes {
			if c.Err == nil || c.Output != "" {
				t.Errorf("%s became %q, %v", c.Name, c.Output, c.Err)
			}
		}
	})
	for name, data := range files {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s has changed: %v", name, err)
		}
	}
	for _, name := range []string{filepath.Join(dir, "ring-folder.ring"), filepath.Join(dir, "ring-link.ring"), outside} {
		expect.OK(t, expect.Err(os.Lstat(name)))
	}
	expect.Equal(t, len(traceFiles(t, dir)), 0, "traces made of nothing")
}

func init() { children["truncate"] = truncated }

// truncated truncates the file of its ring, and continues to record.
func truncated(dir string) error {
	var told []string
	cfg := persistent(dir, control.TraceConfig{Name: "asked", Providers: control.Spans | control.Logs, On: onAPI("asked")})
	cfg.Ring.Bytes = 4 << 20
	errs := make(chan string, 100)
	ctl, err := control.New(&control.Options{Config: cfg, BufferDir: dir, OnError: func(err error) { errs <- err.Error() }})
	if err != nil {
		return err
	}
	r, err := recordingOf(ctl)
	if err != nil {
		return err
	}
	rings, err := filepath.Glob(filepath.Join(dir, "ring-*.ring"))
	if err != nil || len(rings) != 1 {
		return fmt.Errorf("the rings are %q, %w", rings, err)
	}
	r.log.Info("before")
	if err := os.Truncate(rings[0], 0); err != nil {
		return err
	}
	for end := time.Now().Add(patience); len(told) == 0; {
		r.log.Info("while it is found out")
		select {
		case text := <-errs:
			told = append(told, text)
		default:
			if time.Now().After(end) {
				return fmt.Errorf("nothing is told")
			}
		}
	}
	for n := range 20_000 { // more records than the ring has room for
		r.log.Info("after", "n", n)
	}
	if err := errors.Join(r.snapshots(3), r.end()); err != nil {
		return err
	}
	for len(errs) > 0 {
		told = append(told, <-errs)
	}
	if len(told) != 1 || !strings.Contains(told[0], "was lost") { // the ring continues in another file
		return fmt.Errorf("it is told %d times: %q", len(told), told)
	}
	return nil
}

// threeTraces runs a child process to its end, and returns its three traces.
func threeTraces(t *testing.T, child string) []string {
	t.Helper()
	dir := t.TempDir()
	p := startChild(t, child, dir)
	p.ends()
	if !p.cmd.ProcessState.Success() {
		t.Fatalf("the process ended with %v: %s", p.cmd.ProcessState, &p.err)
	}
	files := traceFiles(t, dir)
	expect.MustLen(t, files, 3, "the traces")
	onlyTraces(t, dir)
	return files
}

// TestRingTruncated runs truncated as a child process, because it might kill the process.
func TestRingTruncated(t *testing.T) {
	if testing.Short() {
		t.Skip("its child processes run for ten seconds")
	}
	files := threeTraces(t, "truncate")
	for _, name := range files {
		w := everyLink(t, name)
		if w.messages()["after"] == 0 {
			t.Errorf("%s has nothing of what was recorded after the fault", w.name)
		}
	}
}
