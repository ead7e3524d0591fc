package deadtrace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/file/crashtext"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/tracename"
)

// CreateStream makes and locks a new file for a recorder. The parameter stream is the name of the file. If
// a dead process has left a file under that name, CreateStream renames that file first. The result dead
// has the new names of such files, which [Folder] can finish. CreateStream calls report with errors that
// cost records. While another process finishes a file of a dead process under this name, CreateStream
// waits. After the time patience it returns [ErrBeingFinished].
func CreateStream(stream string, patience time.Duration, report func(error)) (f *os.File, dead []string, err error) {
	// alone counts attempts that found a lock but no process that finishes the stream. Such a process may
	// have ended just now, or may be about to begin.
	alone := 0
	for until := time.Now().Add(patience); ; time.Sleep(min(patience/100, 10*time.Millisecond)) {
		var more []string
		f, more, err = createStream(stream, report)
		dead = append(dead, more...)
		if !errors.Is(err, format.ErrLocked) {
			return f, dead, err
		}
		if isBeingFinished(stream) {
			alone = 0
		} else if alone++; alone == 3 {
			return f, dead, err
		}
		if alone == 0 && time.Now().After(until) {
			return nil, nil, fmt.Errorf("%w: %w", ErrBeingFinished, err)
		}
	}
}

// ErrBeingFinished says that another process is finishing a trace of a dead process under the same name.
var ErrBeingFinished = errors.New("an earlier trace is being finished")

// isBeingFinished reports whether a process is finishing a stream. Such a process has a locked temporary
// file for that name.
func isBeingFinished(stream string) bool {
	names, err := filepath.Glob(osfile.TempPattern(stream))
	return err == nil && slices.ContainsFunc(names, osfile.Locked)
}

func createStream(stream string, report func(error)) (f *os.File, dead []string, err error) {
	for range 100 { // try again if another process makes or removes the file at the same moment
		if err := undoRotation(stream); err != nil {
			return nil, dead, err
		}
		f, err := osfile.CreateAppend(stream)
		if errors.Is(err, fs.ErrExist) {
			name, err := archiveDead(stream)
			if err != nil {
				return nil, dead, err
			}
			dead = append(dead, name)
			continue
		}
		if err != nil {
			return nil, dead, err
		}
		if err := lock(f); err != nil && !errors.Is(err, osfile.ErrNoLocks) {
			_ = f.Close() // another process has locked the file
			return nil, dead, err
		}
		if !osfile.SameFile(f, stream) {
			_ = f.Close() // another process took the file for one of a dead process
			continue
		}
		n, err := importJournal(f, stream, report)
		if err == nil && n == 0 {
			return f, dead, nil
		}
		_ = f.Close() // the file has the records of a dead process, so the next attempt archives it
		if err != nil {
			return nil, dead, err
		}
	}
	return nil, dead, fmt.Errorf("%s: %w", stream, format.ErrLocked)
}

// importJournal writes the records of a journal whose IET is gone to the new file f. It returns the
// number of entries.
func importJournal(f *os.File, stream string, report func(error)) (int, error) {
	b, err := openJournalTail(stream, true)
	if errors.Is(err, journal.ErrGone) {
		report(fmt.Errorf("%s is lost: %w", stream, err))
		return 0, journal.RemoveUnreachable(stream + tracename.Journal)
	}
	if errors.Is(err, journal.ErrElsewhere) {
		report(fmt.Errorf("%s: %w", stream, err))
		return 0, Aside(stream, brokenExt, time.Now(), func(to string) error { return osfile.RenameNew(stream+tracename.Journal, to) })
	}
	if err != nil {
		return 0, errors.Join(err, osfile.Remove(f, stream))
	}
	if b == nil {
		return 0, nil
	}
	b.point.Unsaved += max(b.point.Entries, 1) - 1 // without the root
	if b.records == 0 || b.point.Version.Check() != nil {
		b.unreadable = b.unreadable || b.records > 0
		b.reportDamage(report)
		return 0, b.remove()
	}
	s, _, err := b.survey(f, 0)
	if err == nil {
		err = b.replay(f, s)
	}
	if err != nil {
		return 0, errors.Join(err, osfile.Remove(f, stream), b.close())
	}
	return b.entries, b.remove()
}

// archiveDead makes room for a new stream. It renames the existing stream and its journal to
// names with the time of the last change. The writer of the existing stream must be dead. The
// renamed files are finished later.
func archiveDead(stream string) (name string, err error) {
	f, err := osfile.OpenWrite(stream)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := lock(f); err != nil {
		return "", err
	}
	if !osfile.SameFile(f, stream) {
		return "", nil // another process has renamed or removed it
	}
	fi, err := f.Stat()
	if err != nil {
		return "", err
	}
	if err := checkMagic(stream); err != nil {
		return "", err // do not touch a file that is not a trace
	}
	j, err := openLockedJournal(stream)
	if err != nil {
		return "", err
	}
	move := func(to string) error {
		return osfile.Ignore(osfile.RenameNew(stream+tracename.Journal, to), fs.ErrNotExist)
	}
	if j != nil {
		defer j.Close()
		move = j.Rename
	}
	err = Aside(stream, tracename.IET, fi.ModTime(), func(to string) error {
		if osfile.Exists(strings.TrimSuffix(to, tracename.IET)+tracename.ET) || osfile.Exists(to+tracename.Journal) {
			return fs.ErrExist
		}
		name = to
		if err := osfile.RenameNew(stream, to); err != nil {
			return err
		}
		_ = os.Rename(stream+crashtext.Ext, to+crashtext.Ext) // few streams have a crash text
		return move(to + tracename.Journal)
	})
	return name, errors.Join(err, osfile.SyncDir(stream))
}

// openLockedJournal opens the journal of stream for writing and locks it. It returns nil if no journal
// can be reached. The error is [format.ErrLocked] while the writer lives.
func openLockedJournal(stream string) (*journal.DeadFile, error) {
	f, err := journal.OpenDead(stream+tracename.Journal, true)
	if errors.Is(err, fs.ErrNotExist) || isUnreachable(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := lock(f.File); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// undoRotation restores the name of an IET whose writer died during a rotation: after the writer
// had renamed the IET to a name with a time, and before the next IET had its name. The journal at
// that name belongs to the renamed IET.
func undoRotation(stream string) error {
	if osfile.Exists(stream) || !osfile.Exists(stream+tracename.Journal) {
		return nil
	}
	b, err := openJournalTail(stream, true)
	if err != nil || b == nil {
		if isUnreachable(err) {
			return nil // importJournal reports this
		}
		return osfile.Ignore(err, format.ErrLocked) // the writer is alive and rotates
	}
	defer func() { _ = b.close() }() // nothing was written to the journal
	names, err := Archived(stream)
	if err != nil {
		return err
	}
	for _, name := range slices.Backward(names) {
		if isStream(name) && b.isOf(name) {
			return osfile.Ignore(osfile.RenameNew(name, stream), fs.ErrExist)
		}
	}
	return nil
}
