package recorder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/entrybytes"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/tracename"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
)

// A finisher finishes and prunes earlier files in the background: files that this recording has replaced, and
// files of dead writers.
type finisher struct {
	in       *intake
	name     string        // name of the growing IET
	final    string        // name of the file that close leaves
	finished background    // finishes files of this path
	family   background    // finishes files of other paths of the family
	unsaved  atomic.Uint64 // number of entries of removed files that are not in another file yet
}

func (fin *finisher) journalName() string { return fin.name + tracename.Journal }

// finishOwn finishes files of this path that dead writers have left under names with a time. It returns
// their paths without extensions. The parameter dead lists files that were renamed to make room for this
// recording.
func (fin *finisher) finishOwn(ctx context.Context, dead []string) []string {
	own := tracename.Base(filepath.Base(fin.name))
	et := fin.final != fin.name
	is := deadtrace.Filter{Base: func(base string) bool { return base == own }, Trace: func(path string) bool {
		stream := path + tracename.IET
		if stream == fin.name { // a new recording has this name
			return false
		}
		return et || !deadtrace.IsFinished(stream)
	}}
	var spare []string
	for _, name := range dead { // even if they are finished already
		spare = append(spare, tracename.Base(name))
		fin.finished.ended.Add(tracename.Base(name))
	}
	return append(spare, fin.finishFolder(ctx, is, &deadtrace.Options{IET: !et, AtStart: true})...)
}

// finishFamily finishes the files that dead writers of the family have left. It returns the paths of these
// files without extensions.
func (fin *finisher) finishFamily(ctx context.Context) []string {
	if fin.in.o.Family == nil {
		return nil
	}
	own := tracename.Base(filepath.Base(fin.name))
	is := deadtrace.Filter{Base: func(base string) bool { return base != own && fin.in.o.Family(base) }}
	return fin.finishFolder(ctx, is, &deadtrace.Options{Owner: deadtrace.Others, IET: fin.final == fin.name, AtStart: true})
}

func (fin *finisher) finishFolder(ctx context.Context, is deadtrace.Filter, o *deadtrace.Options) (finished []string) {
	o.Report = fin.in.report
	err := deadtrace.Folder(ctx, filepath.Dir(fin.name), is, o, func(r *deadtrace.Result, err error) {
		switch {
		case errors.Is(err, context.Canceled): // the next start continues
		case err != nil:
			fin.in.report(err)
		case r.Changed:
			if !r.Old {
				path := tracename.Base(r.Output)
				finished = append(finished, path)
				fin.finished.ended.Add(path)
			}
			fin.in.notice(reportOf(r).Finished())
		}
	})
	if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, fs.ErrNotExist) {
		fin.in.report(err)
	}
	return finished
}

// prune removes the oldest finished traces of the family until the number and size of the rest are within
// the options. It never removes the traces in spare.
func (fin *finisher) prune(ctx context.Context, now time.Time, spare ...string) error {
	k := deadtrace.Keep{Files: fin.in.o.KeepFiles, Bytes: fin.in.o.KeepBytes, Family: fin.in.o.Family, Ended: &fin.finished.ended, Notice: fin.in.notice}
	return k.Prune(ctx, fin.name, now, spare...)
}

// exchange renames the growing file, if it still has its name, and gives that name to the successor next. It returns
// the new name of the growing file. If it fails, the growing file keeps its name if possible.
func (fin *finisher) exchange(next *successor, named bool, now time.Time) (aside string, err error) {
	if named {
		aside, err = fin.archiveGrowing(now)
		if err != nil {
			return "", err
		}
	}
	err = osfile.RenameNew(next.file.f.Name(), fin.name)
	if err != nil && named {
		err = errors.Join(err, osfile.RenameNew(aside, fin.name))
	}
	return aside, err
}

// archiveGrowing renames the growing file to a name with the time now, and returns the new name.
func (fin *finisher) archiveGrowing(now time.Time) (aside string, err error) {
	final := fin.final != fin.name
	err = deadtrace.Aside(fin.name, tracename.IET, now, func(to string) error {
		et := strings.TrimSuffix(to, tracename.IET) + tracename.ET
		if final && osfile.Exists(et) {
			return fs.ErrExist
		}
		aside = to
		if err := osfile.RenameNew(fin.name, to); err != nil {
			return err
		}
		if final && osfile.Exists(et) {
			// Another process has just finished a file with this name.
			return cmp.Or(osfile.RenameNew(to, fin.name), fs.ErrExist)
		}
		return nil
	})
	return aside, err
}

// finishOld finishes the file old in the background. The parameter aside is its new name.
func (fin *finisher) finishOld(old *fileSink, aside string) {
	final, base := fin.final != fin.name, strings.TrimSuffix(aside, tracename.IET)
	// Add the path now, to keep the order of the files: they are finished concurrently.
	fin.finished.ended.Add(base)
	fin.finished.add(old.f)
	fin.finished.start(func(ctx context.Context) error {
		err := osfile.SyncDir(aside)
		if final {
			err = entrybytes.Finalize(ctx, aside, base+tracename.ET, &format.FinalizeOptions{File: old.f, RemoveSource: true, Folder: old.place()}, &old.index)
		}
		if err != nil || !final {
			err = errors.Join(err, old.f.Sync())
		}
		err = errors.Join(err, osfile.Ignore(old.f.Close(), os.ErrClosed))
		fin.finished.remove(old.f)
		return errors.Join(err, fin.prune(ctx, time.Now()))
	})
}

// leaveOld closes, in the background, a file that was removed or renamed. If it was removed, leaveOld saves
// its entries in another file. The parameter removed is the number of these entries.
func (fin *finisher) leaveOld(old *fileSink, removed uint64, now time.Time) {
	fin.finished.add(old.f)
	fin.finished.start(func(ctx context.Context) error {
		defer fin.finished.remove(old.f)
		defer old.f.Close()
		if removed == 0 && !old.isRemoved() {
			return old.f.Sync()
		}
		name, err := fin.save(ctx, old, now)
		if err != nil {
			err = fmt.Errorf("%s was removed, and its entries cannot be saved: %w", fin.name, err)
			fin.in.loseWritten(old.index.CutTo(0))
			fin.in.failed(err)
			return err
		}
		fin.unsaved.Add(-removed)
		fin.finished.ended.Add(tracename.Base(name))
		fin.in.armed.Store(true) // the writer then stores in a checkpoint, if it has a journal, that the entries are saved
		fin.in.wakeUp()
		return fin.prune(ctx, time.Now())
	})
}

// save copies the content of the removed file old to a new file and returns the name of the new file.
func (fin *finisher) save(ctx context.Context, old *fileSink, now time.Time) (name string, err error) {
	ext, write := tracename.IET, copyFile
	if fin.final != fin.name {
		ext, write = tracename.ET, func(ctx context.Context, f *os.File, to string) error {
			return entrybytes.Finalize(ctx, fin.name, to, &format.FinalizeOptions{File: f}, &old.index)
		}
	}
	err = deadtrace.Aside(fin.name, ext, now, func(to string) error {
		name = to
		return write(ctx, old.f, to)
	})
	return name, err
}

// copyFile copies the content of f to a new file.
func copyFile(ctx context.Context, f *os.File, to string) error {
	tmp, err := osfile.CreateTemp(to)
	if err != nil {
		return err
	}
	defer tmp.Discard()
	const piece = 1 << 20
	for at := int64(0); ; at += piece {
		n, err := io.Copy(tmp, io.NewSectionReader(f, at, piece))
		err = cmp.Or(err, ctx.Err())
		if err != nil {
			return err
		}
		if n < piece {
			return tmp.Commit(false)
		}
	}
}
