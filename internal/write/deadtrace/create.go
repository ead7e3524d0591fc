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

// CreateStream makes and locks the file stream for a recorder. If a dead process has left a file with this
// name, CreateStream renames it; dead has the new names of such files, which [Folder] can finish.
// CreateStream calls report with errors because of which records are lost. While another process finishes a
// trace with this name, CreateStream waits. After the time patience, it returns [ErrBeingFinished].
func CreateStream(stream string, patience time.Duration, report func(error)) (f *os.File, dead []string, err error) {
	// alone counts attempts in a row that found a lock, but no process that is finishing the stream. Such a
	// process may have ended just now, or may be about to begin.
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
		} else {
			alone++
			if alone == 3 {
				return f, dead, err
			}
		}
		if alone == 0 && time.Now().After(until) {
			return nil, nil, fmt.Errorf("%w: %w", ErrBeingFinished, err)
		}
	}
}

// ErrBeingFinished means that another process is finishing a trace of a dead process with the same name.
var ErrBeingFinished = errors.New("another process is still finishing an earlier trace of this name")

// isBeingFinished reports whether a process is finishing stream: it then has a locked temporary file for
// this name.
func isBeingFinished(stream string) bool {
	names, err := filepath.Glob(osfile.TempPattern(stream))
	return err == nil && slices.ContainsFunc(names, osfile.Locked)
}

func createStream(stream string, report func(error)) (f *os.File, dead []string, err error) {
	for range 100 { // try again if another process makes or removes the file at the same time
		err := undoRotation(stream)
		if err != nil && !isUnreachable(err) && !errors.Is(err, format.ErrLocked) { // importJournal reports these
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
			_ = f.Close() // another process has archived the file, because it looked like the file of a dead process
			continue
		}
		n, err := importJournal(f, stream, report)
		if err == nil && n == 0 {
			return f, dead, nil
		}
		_ = f.Close() // the file has records of a dead process now, and the next attempt archives it
		if err != nil {
			return nil, dead, err
		}
	}
	return nil, dead, fmt.Errorf("%s: %w", stream, format.ErrLocked)
}

// importJournal writes the records of a journal without an IET to the new file f, and returns the number of
// entries.
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
	b.point.Unsaved += max(b.point.Entries, 1) - 1 // the root does not count
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

// archiveDead makes room for a new stream. It renames the existing stream of a dead process, and its
// journal, to names with the time of the last change, and returns the new name. The renamed files are
// finished later.
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
		return "", nil // another process has just renamed or removed it
	}
	fi, err := f.Stat()
	if err != nil {
		return "", err
	}
	if err := checkMagic(stream); err != nil {
		return "", err // a file that is not a trace stays
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
		_ = os.Rename(stream+crashtext.Ext, to+crashtext.Ext) // most streams have no crash text
		return move(to + tracename.Journal)
	})
	return name, errors.Join(err, osfile.SyncDir(stream))
}

// openLockedJournal opens the journal of stream for writing and locks it. It returns nil if there is no
// journal or it cannot be reached. The error is [format.ErrLocked] if the writer lives.
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

// undoRotation handles a death during a rotation: the writer had renamed the IET to a name with a time, but
// the next IET did not have its name yet. undoRotation renames the IET back, because the journal with this
// name belongs to it. The error is [format.ErrLocked] if a living writer is beginning a new file.
func undoRotation(stream string) error {
	if osfile.Exists(stream) || !osfile.Exists(stream+tracename.Journal) {
		return nil
	}
	b, err := openJournalTail(stream, true)
	if err != nil || b == nil {
		return err
	}
	defer func() { _ = b.close() }() // the journal was not changed
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
