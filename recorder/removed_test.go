//go:build unix

package recorder_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/write/inside"
	"github.com/entrace-go/entrace/recorder"
)

// TestNewFileAfterRemoval removes or renames the growing file, or removes its folder. Within a second, a
// new file begins under its name. At the end, each record is in exactly one file: the records of a removed
// file are saved in another file, and a renamed file keeps its own.
func TestNewFileAfterRemoval(t *testing.T) {
	for _, x := range []struct {
		fate string
		do   func(stream string) error
	}{
		{"file", os.Remove},
		{"folder", func(stream string) error { return os.RemoveAll(filepath.Dir(stream)) }},
		{"folder made again", func(stream string) error {
			return errors.Join(os.RemoveAll(filepath.Dir(stream)), os.Mkdir(filepath.Dir(stream), 0o700))
		}},
		{"renamed", func(stream string) error { return os.Rename(stream, filepath.Join(filepath.Dir(stream), "moved.iet")) }},
	} {
		for _, name := range []string{"app.et", "app.iet"} {
			for _, d := range durabilities {
				t.Run(strings.Join([]string{x.fate, name, d.String()}, " "), func(t *testing.T) {
					dir := filepath.Join(t.TempDir(), "traces")
					must(t, os.Mkdir(dir, 0o700))
					synctest.Test(t, func(t *testing.T) {
						told := make(chan error, 10)
						rec := tracetest.CreateAt(t, filepath.Join(dir, name), &recorder.Options{Durability: d, OnError: func(err error) { told <- err }})
						writeNamed(t, rec, "before")
						must(t, x.do(rec.StreamPath()))
						time.Sleep(time.Second)
						writeNamed(t, rec, "after")
						synctest.Wait()
						expect.Slice(t, entryNames(t, rec.StreamPath()), []string{"after"}, "the new file has")
						expect.Is(t, <-told, recorder.ErrUnlinked, "OnError was told")
						if has, err := rec.Durability(); has != d || err != nil || rec.Err() != nil {
							t.Errorf("Durability is %v, %v; Err is %v", has, err, rec.Err())
						}
						writeNamed(t, rec, "later")
						sane(t, rec.Stats())
						must(t, rec.Close(t.Context()))
						if s := rec.Stats(); s.Entries.Dropped.Total() > 0 || s.Entries.Waiting > 0 {
							t.Errorf("the account is %+v", s.Entries)
						}
						var all []string
						for _, n := range dirNames(t, dir) {
							all = append(all, entryNames(t, filepath.Join(dir, n))...)
						}
						slices.Sort(all)
						if !slices.Equal(all, []string{"after", "before", "later"}) {
							t.Errorf("the files %q have %q", dirNames(t, dir), all)
						}
					})
				})
			}
		}
	}
}

// TestCloseAfterRenaming renames the folder of the growing file just before Close. No trace is made in the old place,
// where it would be a second one.
func TestCloseAfterRenaming(t *testing.T) {
	for what, do := range map[string]func(stream string) error{
		"folder": func(stream string) error { return os.Rename(filepath.Dir(stream), filepath.Dir(stream)+"2") },
		"folder made again": func(stream string) error {
			dir := filepath.Dir(stream)
			return errors.Join(os.Rename(dir, dir+"2"), os.Mkdir(dir, 0o700))
		},
	} {
		for _, name := range []string{"app.et", "app.iet"} {
			t.Run(what+" "+name, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "traces")
				must(t, os.Mkdir(dir, 0o700))
				rec := tracetest.CreateAt(t, filepath.Join(dir, name), nil)
				writeNamed(t, rec, "before")
				must(t, do(rec.StreamPath()))
				must(t, logNamed(rec, "last"))
				if err := rec.Close(t.Context()); err == nil {
					t.Error("Close returns no error")
				}
				var all []string
				for _, d := range []string{dir, dir + "2"} {
					err := recorder.RecoverFolder(t.Context(), d, func(_ *recorder.Report, err error) { must(t, err) })
					if errors.Is(err, fs.ErrNotExist) {
						continue
					}
					must(t, err)
					for _, n := range dirNames(t, d) {
						all = append(all, entryNames(t, filepath.Join(d, n))...)
					}
				}
				expect.Slice(t, all, []string{"before", "last"}, "the files have")
			})
		}
	}
}

// TestFinalizeRenamed renames the folder of an open IET and makes it again, as can happen before a rotation has
// finished a file. An ET in the new folder would be a second trace.
func TestFinalizeRenamed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "traces")
	must(t, os.Mkdir(dir, 0o700))
	iet := filepath.Join(dir, "a.iet")
	deadStream(t, iet)
	f, err := os.OpenFile(iet, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	folder, err := os.Stat(dir)
	must(t, err)
	must(t, errors.Join(os.Rename(dir, dir+"2"), os.Mkdir(dir, 0o700)))
	if err := format.Finalize(t.Context(), iet, filepath.Join(dir, "a.et"), &format.FinalizeOptions{File: f, RemoveSource: true, Folder: folder}); err == nil {
		t.Error("Finalize returns no error")
	}
	expect.Slice(t, append(dirNames(t, dir), dirNames(t, dir+"2")...), []string{"a.iet"}, "the folders have")
}

// entryNames returns the names of the entries that the application has recorded in a file.
func entryNames(t *testing.T, name string) (names []string) {
	t.Helper()
	f := tracetest.Open(t, name)
	for id := uint32(1); int(id) < f.Len(); id++ {
		e, err := f.Entry(id)
		must(t, err)
		if !strings.HasPrefix(e.Metadata.Name, "entrace.") {
			names = append(names, e.Metadata.Name)
		}
	}
	return names
}

// TestNoNewFileAfterRemoval replaces the folder by a file or a link. Calls return ErrUnlinked until a file
// can be made again. No record is lost whose call has returned nil.
func TestNoNewFileAfterRemoval(t *testing.T) {
	for _, x := range []struct {
		name string
		do   func(t *testing.T, dir string) error
	}{
		{"file", func(_ *testing.T, dir string) error { return os.WriteFile(dir, nil, 0o600) }},
		{"link", func(t *testing.T, dir string) error {
			other := t.TempDir()
			tracetest.Symlink(t, other, dir)
			return nil
		}},
	} {
		for _, d := range durabilities {
			t.Run(x.name+" "+d.String(), func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "traces")
				must(t, os.Mkdir(dir, 0o700))
				rec := tracetest.CreateAt(t, filepath.Join(dir, "app.et"), &recorder.Options{Durability: d})
				writeNamed(t, rec, "before")
				must(t, os.RemoveAll(dir))
				must(t, x.do(t, dir))
				acknowledged, tried := []string{"before"}, 0
				log := func(name string) error {
					tried++
					name = fmt.Sprint(name, tried)
					err := logNamed(rec, name)
					if err == nil {
						acknowledged = append(acknowledged, name)
					}
					return err
				}
				eventually(t, "calls fail", func() bool { return errors.Is(log("while"), recorder.ErrUnlinked) })
				for range 100 {
					expect.MustIs(t, log("refused"), recorder.ErrUnlinked, "Log")
				}
				if has, err := rec.Durability(); has != recorder.DurabilityNone || !errors.Is(err, recorder.ErrUnlinked) {
					t.Errorf("Durability is %v, %v", has, err)
				}
				expect.Is(t, rec.Flush(t.Context()), recorder.ErrUnlinked, "Flush")
				sane(t, rec.Stats())
				must(t, os.Remove(dir))
				eventually(t, "calls succeed", func() bool { return log("after") == nil })
				must(t, rec.Flush(t.Context()))
				if has, err := rec.Durability(); has != d || err != nil {
					t.Errorf("Durability is %v, %v at the end", has, err)
				}
				_ = rec.Close(context.Background()) // returns an error because calls failed above
				s := rec.Stats()
				sane(t, s)
				if s.Entries.Dropped.Total() < 100 || s.Entries.Waiting > 0 {
					t.Errorf("the account is %+v", s.Entries)
				}
				var all []string
				for _, n := range dirNames(t, dir) {
					all = append(all, entryNames(t, filepath.Join(dir, n))...)
				}
				slices.Sort(all)
				if got := slices.Compact(slices.Clone(all)); len(got) < len(all) {
					t.Errorf("records are there twice: %q", all)
				}
				for _, name := range acknowledged {
					if !slices.Contains(all, name) {
						t.Errorf("%s is lost", name)
					}
				}
				if d == recorder.DurabilityProcess && len(all) > len(acknowledged) {
					t.Errorf("%d records are there, %d were acknowledged", len(all), len(acknowledged))
				}
			})
		}
	}
}

// TestFolderIsRemovedAtTheEnd replaces the folder by a file just before Close. Records that cannot be saved
// count as dropped.
func TestFolderIsRemovedAtTheEnd(t *testing.T) {
	for _, name := range []string{"app.et", "app.iet"} {
		dir := filepath.Join(t.TempDir(), "traces")
		must(t, os.Mkdir(dir, 0o700))
		rec := tracetest.CreateAt(t, filepath.Join(dir, name), nil)
		must(t, logNamed(rec, "lost"))
		must(t, os.RemoveAll(dir))
		must(t, os.WriteFile(dir, nil, 0o600))
		if err := rec.Close(t.Context()); err == nil {
			t.Errorf("%s: Close returns no error", name)
		}
		if s := rec.Stats(); s.Entries.Written > 0 || s.Entries.Dropped.IO != s.Entries.Offered {
			t.Errorf("%s: the account is %+v", name, s.Entries)
		}
	}
}

// killedCopy returns a copy of a folder. The copy is like the folder after a kill at this moment.
func killedCopy(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "killed")
	must(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

// TestRecoveryTellsOfUnsavedEntries removes the IET of a killed recorder. The next recorder reports how
// many entries are lost.
func TestRecoveryTellsOfUnsavedEntries(t *testing.T) {
	dir := t.TempDir()
	rec := tracetest.CreateAt(t, filepath.Join(dir, "app.et"), &recorder.Options{BufferDir: dir})
	for range 5 {
		must(t, logNamed(rec, "gone"))
	}
	must(t, rec.Flush(t.Context()))
	killed := killedCopy(t, dir)
	must(t, rec.Close(t.Context()))
	must(t, os.Remove(filepath.Join(killed, "app.iet")))
	var told []error
	next := tracetest.CreateAt(t, filepath.Join(killed, "app.et"), &recorder.Options{
		BufferDir: killed, OnError: func(err error) { told = append(told, err) },
	})
	must(t, next.Close(t.Context()))
	if len(told) != 1 || !strings.Contains(told[0].Error(), "5 entries are lost") {
		t.Errorf("OnError was told %v", told)
	}
}

// TestRenamedFolder renames the folder of a trace and puts a link in its place. Recording continues in the renamed
// folder, without a journal. Nothing is missing after a kill, and nothing is in the folder of the link.
func TestRenamedFolder(t *testing.T) {
	for _, journals := range []string{"beside", "elsewhere"} {
		t.Run(journals, func(t *testing.T) {
			dir, other := filepath.Join(t.TempDir(), "traces"), t.TempDir()
			must(t, os.Mkdir(dir, 0o700))
			o := &recorder.Options{BufferDir: dir}
			if journals == "elsewhere" {
				o.BufferDir = t.TempDir()
			}
			synctest.Test(t, func(t *testing.T) {
				rec := tracetest.CreateAt(t, filepath.Join(dir, "app.et"), o)
				writeNamed(t, rec, "before")
				must(t, os.Rename(dir, dir+"2"))
				tracetest.Symlink(t, other, dir)
				time.Sleep(time.Second)
				writeNamed(t, rec, "later")
				must(t, logNamed(rec, "last"))
				killed := killedCopy(t, dir+"2")
				if err := rec.Close(t.Context()); err == nil {
					t.Error("Close has made the ET in the folder of the link")
				}
				if journals == "elsewhere" { // the next recorder removes journals that nobody needs
					tracetest.Close(t, tracetest.CreateAt(t, filepath.Join(t.TempDir(), "next.et"), o))
				}
				must(t, recorder.RecoverFolder(t.Context(), killed, func(r *recorder.Report, err error) {
					if err != nil || r.Journal != nil {
						t.Errorf("recovery says %v, %+v", err, r)
					}
				}))
				if names := dirNames(t, killed); !slices.Equal(names, []string{"app.et"}) {
					t.Fatalf("recovery leaves %q", names)
				}
				expect.Slice(t, entryNames(t, filepath.Join(killed, "app.et")), []string{"before", "later", "last"}, "recovered")
				if names := dirNames(t, other); len(names) > 0 {
					t.Errorf("the folder of the link has %q", names)
				}
			})
		})
	}
}

// TestRecoveryKeepsEntriesBehindCheckpoint recovers an IET with an old journal. The journal has no records behind its
// checkpoint, but the IET has entries there.
func TestRecoveryKeepsEntriesBehindCheckpoint(t *testing.T) {
	dir := t.TempDir()
	rec := tracetest.CreateAt(t, filepath.Join(dir, "app.et"), &recorder.Options{BufferDir: dir})
	writeNamed(t, rec, "before")
	old := readFile(t, rec.StreamPath()+".buffer")
	writeNamed(t, rec, "behind")
	killed := killedCopy(t, dir)
	tracetest.Close(t, rec)
	must(t, os.WriteFile(filepath.Join(killed, "app.iet.buffer"), old, 0o600))
	path := filepath.Join(killed, "app.et")
	_, err := recorder.Recover(path, "")
	must(t, err)
	expect.Slice(t, entryNames(t, path), []string{"before", "behind"}, "recovered")
}

// TestRecoveryKeepsLogOfRepeatedSpan records a span twice, each time with a log record that waits with it.
// A kill before the second span is written does not lose the second log record.
func TestRecoveryKeepsLogOfRepeatedSpan(t *testing.T) {
	dir := t.TempDir()
	rec := tracetest.CreateAt(t, filepath.Join(dir, "app.et"), &recorder.Options{BufferDir: dir})
	res, err := rec.Resource(named(format.NameResource))
	must(t, err)
	log := func(name string) {
		b := rec.Batch()
		b.Log(spanRef(1, 2), 0)
		b.Below(res)
		b.Entry(&format.TraceEntry{Message: format.Some("m"), Metadata: format.Metadata{Name: name}})
		must(t, b.Write())
	}
	s := span("s", 2, 1)
	s.Resource = res
	must(t, tracetest.WriteSpan(rec, s))
	log("first")
	must(t, inside.Of(rec).Suspend(t.Context())) // writes the records, and forgets the span
	must(t, tracetest.WriteSpan(rec, s))
	log("second")
	must(t, rec.Flush(t.Context()))
	killed := killedCopy(t, dir)
	tracetest.Close(t, rec)
	_, err = recorder.Recover(filepath.Join(killed, "app.et"), "")
	must(t, err)
	expect.Equal(t, tracetest.Outline(t, tracetest.Open(t, filepath.Join(killed, "app.et"))), "root(resource(s(first second)) entrace.recovered)", "recovered")
}

// TestSharedAttributesOfWaitingSpan checks that log records have their shared attributes even if they wait
// with their span.
func TestSharedAttributesOfWaitingSpan(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.et")
	rec := tracetest.CreateAt(t, path, nil)
	res, err := rec.Resource(named(format.NameResource))
	must(t, err)
	must(t, tracetest.WriteSpan(rec, span("s", 2, 1)))
	must(t, rec.Flush(t.Context()))
	b := rec.Batch()
	to := inside.OfBatch(b).Direct()
	shared := to.Attributes(nil, func() { to.String("shared", "value") })
	for range 3 {
		b.Log(spanRef(1, 2), 0)
		b.Below(res)
		b.Begin(format.Some("m"), &format.Metadata{Name: "log"})
		b.User()
		to.Add(shared)
		to.String("own", "value")
		b.End()
	}
	must(t, b.Write())
	must(t, rec.Flush(t.Context()))
	must(t, tracetest.WriteSpan(rec, span("p", 1, 0)))
	tracetest.Close(t, rec)
	logs := 0
	must(t, tracetest.Open(t, path).Walk(0, func(_ uint32, e *format.TraceEntry) error {
		if e.Metadata.Name == "log" {
			logs++
			own, _ := e.Attribute("own")
			if v, _ := e.Attribute("shared"); v.Text() != "value" || own.Text() != "value" {
				t.Errorf("the attributes are %v", e.Attributes)
			}
		}
		return nil
	}))
	expect.Equal(t, logs, 3, "log records")
}
