package archive_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pq "github.com/parquet-go/parquet-go"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/read/archive"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

// midnight is between the two days of the traces.
var midnight = time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC)

// record writes a trace. Each service in it has a span one hour before midnight, an entry one hour after midnight,
// and below that an entry without a time.
func record(t *testing.T, name string, services ...string) {
	t.Helper()
	f, err := os.Create(name)
	expect.Must(t, err)
	kind, err := format.ParseStorageFormat(filepath.Ext(name)[1:])
	expect.Must(t, err)
	w, err := format.NewWriter(f, format.V1, kind, nil)
	expect.Must(t, err)
	add := func(parent uint32, name string, attributes ...format.Attribute) uint32 {
		id, err := w.Write(&format.TraceEntry{Parent: parent, Metadata: format.Metadata{Name: name}, Attributes: attributes})
		expect.Must(t, err)
		return id
	}
	text := func(name, value string) format.Attribute {
		return format.Attribute{Name: name, Value: format.StringValue(value)}
	}
	at := func(t time.Time) format.Attribute {
		return format.Attribute{Name: format.AttrTime, Value: format.TimeValue(t)}
	}
	add(0, "root")
	for i, service := range services {
		resource := add(0, format.NameResource, text("service.name", service))
		span := add(resource, "GET /"+service, text(format.AttrTraceID, strings.Repeat("01", 16)), text(format.AttrSpanID, fmt.Sprintf("%016x", i+1)),
			at(midnight.Add(-time.Hour)), format.Attribute{Name: format.AttrDuration, Value: format.U64Value(1000)})
		log := add(span, "log", at(midnight.Add(time.Hour)))
		add(log, "note")
	}
	expect.Must(t, errors.Join(w.Close(), f.Close()))
}

// files returns the content of all files below a folder, by name.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	expect.Must(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(filepath.Join(dir, name))
		all[name] = string(b)
		return err
	}))
	return all
}

// run archives dir, and returns one line for each result.
func run(t *testing.T, dir string, target archive.Target) (lines []string) {
	t.Helper()
	expect.Must(t, archive.Run(t.Context(), dir, target, archive.Options{Report: func(r *archive.Result, err error) {
		words := []string{filepath.Base(r.File)}
		switch {
		case err != nil:
			words[0] += ": an error"
		case r.Left != "":
			words[0] += ": " + r.Left
		case r.Before:
			words[0] += ": before"
		}
		for _, o := range r.Manifest.Objects {
			words = append(words, fmt.Sprintf("%s %d", path.Dir(o.Key), o.Rows))
		}
		lines = append(lines, strings.Join(words, " "))
	}}))
	return lines
}

func TestPartsByServiceAndDay(t *testing.T) {
	for name, x := range map[string]struct {
		services []string
		want     []string // for each part: its folder and its number of rows
	}{
		"none": {nil, []string{"service=__HIVE_DEFAULT_PARTITION__/day=__HIVE_DEFAULT_PARTITION__ 1"}},
		"one":  {[]string{"shop"}, []string{"service=shop/day=2026-11-24 3", "service=shop/day=2026-11-25 2"}},
		"two": {[]string{"shop", "stock"}, []string{
			"service=shop/day=2026-11-24 3", "service=shop/day=2026-11-25 2", "service=stock/day=2026-11-24 2", "service=stock/day=2026-11-25 2",
		}},
		"no name": {[]string{""}, []string{"service=__HIVE_DEFAULT_PARTITION__/day=2026-11-24 3", "service=__HIVE_DEFAULT_PARTITION__/day=2026-11-25 2"}},
		"the name of none": {
			[]string{"__HIVE_DEFAULT_PARTITION__"},
			[]string{"service=%5F_HIVE_DEFAULT_PARTITION__/day=2026-11-24 3", "service=%5F_HIVE_DEFAULT_PARTITION__/day=2026-11-25 2"},
		},
		"a path": {[]string{"../a=b\\c\x00ä."}, []string{
			"service=..%2Fa%3Db%5Cc%00%C3%A4%2E/day=2026-11-24 3", "service=..%2Fa%3Db%5Cc%00%C3%A4%2E/day=2026-11-25 2",
		}},
		"long": {[]string{strings.Repeat("/", 300)}, []string{
			"service=" + strings.Repeat("%2F", 66) + "/day=2026-11-24 3", "service=" + strings.Repeat("%2F", 66) + "/day=2026-11-25 2",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, to := t.TempDir(), t.TempDir()
			record(t, filepath.Join(dir, "app.et"), x.services...)
			want := []string{"app.et " + strings.Join(x.want, " ")}
			expect.Slice(t, run(t, dir, archive.Folder(to)), want, "run")
			expect.Equal(t, len(files(t, to)), len(x.want)+1, "files, with a manifest")
		})
	}
}

// TestNamesThatFallTogether checks that services with the same folder have separate objects. Services get the same
// folder if their names are cut, or on some systems if they differ only in case.
func TestNamesThatFallTogether(t *testing.T) {
	dir, to := t.TempDir(), t.TempDir()
	long := strings.Repeat("x", 300)
	record(t, filepath.Join(dir, "app.et"), long+"1", long+"2")
	run(t, dir, archive.Folder(to))
	expect.Equal(t, len(files(t, to)), 5, "files: 4 objects and a manifest")
}

// TestEveryRowIsInOneObject checks that the objects of a source together contain each row exactly once.
func TestEveryRowIsInOneObject(t *testing.T) {
	dir, to := t.TempDir(), t.TempDir()
	record(t, filepath.Join(dir, "app.et"), "shop", "stock")
	run(t, dir, archive.Folder(to))
	var got []string
	for name, content := range files(t, to) {
		if path.Ext(name) == ".parquet" {
			got = append(got, names(t, content)...)
		}
	}
	want := []string{"GET /shop", "GET /stock", "log", "log", "note", "note", format.NameResource, format.NameResource}
	slices.Sort(got)
	slices.Sort(want)
	expect.Slice(t, got, want, "the files")
}

// names returns the names of the entries in a Parquet table, without the root.
func names(t *testing.T, table string) (all []string) {
	t.Helper()
	rows, err := pq.Read[struct {
		Role string `parquet:"role"`
		Name string `parquet:"name"`
	}](strings.NewReader(table), int64(len(table)))
	expect.Must(t, err)
	for _, r := range rows {
		if r.Role != view.RoleRoot.String() {
			all = append(all, r.Name)
		}
	}
	return all
}

func TestEachSourceIsArchivedOnce(t *testing.T) {
	dir, to := t.TempDir(), t.TempDir()
	record(t, filepath.Join(dir, "a.et"), "shop")
	copied := tracetest.ReadFile(t, filepath.Join(dir, "a.et"))
	expect.Must(t, os.WriteFile(filepath.Join(dir, "b.et"), copied, 0o600))
	first := run(t, dir, archive.Folder(to))
	expect.Slice(t, first, []string{"a.et service=shop/day=2026-11-24 3 service=shop/day=2026-11-25 2", "b.et: before"}, "first")
	was := files(t, to)
	record(t, filepath.Join(dir, "b.et"), "stock") // another trace gets the name
	if got, want := run(t, dir, archive.Folder(to)), "b.et service=stock"; got[0] != "a.et: before" || !strings.HasPrefix(got[1], want) {
		t.Errorf("got %q, want a.et as before and %s…", got, want)
	}
	now := files(t, to)
	for name, content := range was {
		if now[name] != content {
			t.Errorf("%s has changed", name)
		}
	}
}

func TestManifestDescribesTheObjects(t *testing.T) {
	dir, to := t.TempDir(), t.TempDir()
	record(t, filepath.Join(dir, "app.et"), "shop")
	run(t, dir, archive.Folder(to))
	all := files(t, to)
	for name, content := range all {
		if path.Ext(name) != ".json" {
			continue
		}
		var m archive.Manifest
		expect.Must(t, json.Unmarshal([]byte(content), &m))
		if m.Name != "app.et" || name != "_manifest/"+m.SHA256+".json" || len(m.Objects) != len(all)-1 {
			t.Errorf("%s has %+v", name, m)
		}
		for _, o := range m.Objects {
			if got := int64(len(all[o.Key])); got == 0 || got != o.Bytes {
				t.Errorf("%s has %d bytes, want %d", o.Key, got, o.Bytes)
			}
		}
	}
}

// TestUnfinishedAndDamagedAreLeft checks that unfinished and damaged traces are not archived, and all others are.
func TestUnfinishedAndDamagedAreLeft(t *testing.T) {
	dir, to := t.TempDir(), t.TempDir()
	name := func(base string) string { return filepath.Join(dir, base) }
	record(t, name("cut.et"), "shop")
	whole, err := os.ReadFile(name("cut.et"))
	expect.Must(t, errors.Join(err, os.Truncate(name("cut.et"), int64(len(whole)-5)), os.WriteFile(name("app.et.broken"), whole, 0o600)))
	record(t, name("dead.iet"), "shop")
	record(t, name("live.iet"), "shop")
	live, err := osfile.OpenWrite(name("live.iet"))
	expect.Must(t, err)
	defer live.Close()
	if err := osfile.Lock(live, true); err != nil {
		t.Skip(err)
	}
	expect.Must(t, errors.Join(os.WriteFile(name("empty.et"), nil, 0o600), os.WriteFile(name("notes.txt"), whole[20:], 0o600), os.Mkdir(name("more"), 0o700)))
	record(t, name("whole.et"), "shop")
	got := run(t, dir, archive.Folder(to))
	want := []string{
		"app.et.broken: the file is the damaged original of a recovered trace", "cut.et: an error",
		"dead.iet: the trace is not finished: finish it with 'entrace recover'", "empty.et: an error", "live.iet: a process is writing it",
		"whole.et service=shop/day=2026-11-24 3 service=shop/day=2026-11-25 2",
	}
	expect.Slice(t, got, want, "the files")
}

func TestLinksAreNotFollowed(t *testing.T) {
	dir, to := t.TempDir(), t.TempDir()
	record(t, filepath.Join(to, "elsewhere.et"), "shop")
	tracetest.Symlink(t, filepath.Join(to, "elsewhere.et"), filepath.Join(dir, "app.et"))
	want := []string{"app.et: not a regular file, and links are not followed"}
	expect.Slice(t, run(t, dir, archive.Folder(to)), want, "run")
}

func TestDryRunWritesNothing(t *testing.T) {
	dir, to := t.TempDir(), hosttest.Path(t, "to")
	record(t, filepath.Join(dir, "app.et"), "shop")
	objects := 0
	expect.Must(t, archive.Run(t.Context(), dir, archive.Folder(to), archive.Options{DryRun: true, Report: func(r *archive.Result, err error) {
		expect.Must(t, err)
		objects += len(r.Manifest.Objects)
	}}))
	if objects != 2 || osfile.Exists(to) {
		t.Errorf("got %d objects, and the target exists: %v", objects, osfile.Exists(to))
	}
}

// TestTwoArchiversAtOnce checks that two concurrent archivers write the same files as one.
func TestTwoArchiversAtOnce(t *testing.T) {
	dir, to, alone := t.TempDir(), t.TempDir(), t.TempDir()
	for i := range 8 {
		record(t, filepath.Join(dir, fmt.Sprint(i, ".et")), "shop", fmt.Sprint("stock", i))
	}
	run(t, dir, archive.Folder(alone))
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() { run(t, dir, archive.Folder(to)) })
	}
	both.Wait()
	sameFiles(t, files(t, to), files(t, alone))
}

// TestUnreachableTargetEndsTheRun checks that Run ends at the first error of the target, and does not try every
// file.
func TestUnreachableTargetEndsTheRun(t *testing.T) {
	dir := t.TempDir()
	record(t, filepath.Join(dir, "a.et"), "shop")
	record(t, filepath.Join(dir, "b.et"), "shop")
	to := hosttest.Path(t, "file")
	expect.Must(t, os.WriteFile(to, nil, 0o600))
	err := archive.Run(t.Context(), dir, archive.Folder(to), archive.Options{Report: func(r *archive.Result, err error) {
		t.Errorf("%s is reported with %v", r.File, err)
	}})
	if err == nil {
		t.Error("there is no error")
	}
}

func sameFiles(t *testing.T, got, want map[string]string) {
	t.Helper()
	for name, content := range want {
		expect.Equal(t, got[name], content, "%s", name)
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s should not be there", name)
		}
	}
}

// killedEnv has the arguments of TestKilledArchiver: the step at which the process dies, the source folder and the
// target folder.
const killedEnv = "ENTRACE_TEST_ARCHIVE"

// TestArchiveAfterKillAtEveryStep kills an archiver before and after each operation on the target. After another,
// complete run, the archive must be equal to the archive of a process that was never killed.
func TestArchiveAfterKillAtEveryStep(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process for each step")
	}
	dir, alone := t.TempDir(), t.TempDir()
	record(t, filepath.Join(dir, "a.et"), "shop", "stock")
	record(t, filepath.Join(dir, "b.et"), "shop")
	run(t, dir, archive.Folder(alone))
	want := files(t, alone)
	exe, err := os.Executable()
	expect.Must(t, err)
	steps := 0
	for killed := true; killed; steps += hosttest.InCI(3, 1) {
		to := t.TempDir()
		cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestKilledArchiver$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d|%s|%s", killedEnv, steps, dir, to))
		out, err := cmd.CombinedOutput()
		killed = err != nil
		if killed && !bytes.Contains(out, []byte("dies")) {
			t.Fatalf("step %d: %v\n%s", steps, err, out)
		}
		for name := range files(t, to) { // files of killed archivers must be old to be deleted
			expect.Must(t, os.Chtimes(filepath.Join(to, name), midnight, midnight.AddDate(-1, 0, 0)))
		}
		run(t, dir, archive.Folder(to))
		sameFiles(t, files(t, to), want)
		if t.Failed() {
			t.Fatalf("killed at step %d", steps)
		}
	}
	if steps < 40 {
		t.Errorf("there were %d steps", steps)
	}
}

// TestKilledArchiver runs in the process that TestArchiveAfterKillAtEveryStep kills.
func TestKilledArchiver(t *testing.T) {
	args := strings.SplitN(os.Getenv(killedEnv), "|", 3)
	if len(args) < 3 {
		t.Skip("the other test runs it")
	}
	var step int
	_, err := fmt.Sscan(args[0], &step)
	expect.Must(t, err)
	run(t, args[1], &mortal{archive.Folder(args[2]), t, step})
}

// A mortal is a target that kills the process after left steps.
type mortal struct {
	archive.Target

	t    *testing.T
	left int
}

func (m *mortal) step() {
	m.left--
	if m.left < 0 {
		fmt.Println("dies")
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		expect.Must(m.t, err)
		select {} // until the process is dead
	}
}

func (m *mortal) Has(ctx context.Context, key string) (bool, error) {
	m.step()
	return m.Target.Has(ctx, key)
}

func (m *mortal) Create(ctx context.Context, key string) (archive.Object, error) {
	m.step()
	o, err := m.Target.Create(ctx, key)
	m.step()
	return &mortalObject{o, m}, err
}

type mortalObject struct {
	archive.Object

	m *mortal
}

func (o *mortalObject) Write(p []byte) (int, error) {
	half, err := o.Object.Write(p[:len(p)/2])
	o.m.step()
	if err != nil {
		return half, err
	}
	n, err := o.Object.Write(p[half:])
	return half + n, err
}

func (o *mortalObject) Commit(ctx context.Context) error {
	o.m.step()
	err := o.Object.Commit(ctx)
	o.m.step()
	return err
}
