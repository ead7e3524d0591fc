package format

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/entrace-go/entrace/internal/journal"
	"github.com/entrace-go/entrace/internal/osfile"
)

// A CutReason says why the whole entries of a file end where they do.
type CutReason string

// The reasons for a cut.
const (
	CutClean    CutReason = "clean"     // at the end of the file
	CutTorn     CutReason = "torn"      // the file stops within an entry
	CutZeroTail CutReason = "zero_tail" // only zero bytes follow
	CutCorrupt  CutReason = "corrupt"   // what follows is no entry
)

// A Report says what is whole in a file.
type Report struct {
	Name      string // of the file that was looked at
	Version   Version
	Format    StorageFormat
	Entries   int       // whole ones
	Size      int64     // of the file in bytes
	GoodBytes int64     // from the start of the file to the end of the last whole entry
	Reason    CutReason // what is there
	Damage    error     // the details: a [*TruncatedError] or [*CorruptError]
	Ended     bool      // the last entry marks a clean end
	Live      bool      // a living process is writing it
	// Pending is how many entries the crash buffer of a dead writer holds that
	// are not in the file. Recover has brought them in.
	Pending int

	// BufferDamaged says that the crash buffer holds data that cannot be read.
	// Recover renames it to NAME.TIME.buffer.broken.
	BufferDamaged bool
	// JournalLost says that the journal of a dead writer was in memory that is gone, so that
	// what was in it alone is lost. Recover says it once.
	JournalLost bool

	// What Recover has made, which is Name again when there was nothing to do.
	Output string
	// Broken is where Recover put a corrupt original, if it did.
	Broken string
}

// Inspect says what is whole in the file name, or in what [Create] left of it.
// It changes nothing. A file that is no trace at all is an error, as in [Open].
func Inspect(name string) (*Report, error) {
	name = Find(name)
	f, err := Open(name, &OpenOptions{Prefix: true})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := &Report{
		Name: name, Version: f.version, Format: f.format, Entries: f.Len(), Size: f.Size(), GoodBytes: f.WholeSize(),
		Reason: CutReasonOf(f.damage), Damage: f.damage, Live: osfile.Locked(name),
	}
	if r.Entries == 0 && f.damage != nil && f.format == ET {
		r.GoodBytes = MagicSize // the tables count for nothing without entries
	}
	if n := f.Len(); n > 0 {
		last, err := f.Entry(uint32(n - 1))
		if err != nil {
			return nil, err
		}
		r.Ended = isEnd(last)
	}
	if r.Live || !strings.HasSuffix(name, extIET) {
		return r, nil
	}
	r.Pending, r.BufferDamaged, err = pending(f)
	return r, err
}

// Pending returns how many entries the crash buffer of a dead writer holds that
// are not in its file name, which Recover would bring in. It is 0 for a file that
// a living process writes.
func Pending(name string) (int, error) {
	name = Find(name)
	if !exists(name+extBuffer) || osfile.Locked(name) {
		return 0, nil
	}
	f, err := Open(name, &OpenOptions{Prefix: true})
	if err != nil {
		return 0, err
	}
	defer f.Close()
	n, _, err := pending(f)
	return n, err
}

// pending is Pending for the open IET f. It also reports whether the crash buffer holds
// data that cannot be read.
func pending(f *File) (n int, damaged bool, err error) {
	b, err := openBuffer(f.name, false)
	if err != nil || b == nil {
		return 0, false, err
	}
	n = b.entries
	if b.point.size <= f.WholeSize() {
		// What the file has behind the checkpoint's size is in the buffer, too.
		for i := f.Len(); i > 0 && f.data+int64(f.offsets[i]) > b.point.size; i-- {
			n--
		}
	}
	return max(n, 0), b.unreadable, b.close()
}

// EndsRotated reports whether e is the end of a file that another one follows.
func EndsRotated(e *TraceEntry) bool {
	v, _ := e.Attribute(AttrRotated)
	return isEnd(e) && v.Bool()
}

func isEnd(e *TraceEntry) bool { return e.Parent == 0 && e.Metadata.Name == NameEnd }

// CutReasonOf returns the reason for a cut that err, such as [File.Damage], is.
func CutReasonOf(err error) CutReason {
	if err == nil {
		return CutClean
	}
	if t, ok := errors.AsType[*TruncatedError](err); ok {
		if t.ZeroTail {
			return CutZeroTail
		}
		return CutTorn
	}
	return CutCorrupt
}

// Recover saves the longest whole prefix of the file name, or of what [Create]
// left of it.
//
// With an output it writes that, a new file, IET if it is called x.iet and else
// ET, and leaves the source as it is. Without one it finishes the file in place:
// a trace that was to become app.et becomes that, an x.iet is cut to its whole
// entries. A corrupt original is kept beside it as FILE.broken. A file that a
// living process writes is [ErrLocked] then. Recovering a whole file again does
// nothing.
func Recover(name, output string) (*Report, error) {
	if output == "" {
		if err := orphan(name); err != nil {
			return nil, fmt.Errorf("recover: %w", openError(err))
		}
	}
	r, err := Inspect(name)
	if err != nil {
		return nil, err
	}
	if output != "" {
		r.Output = output
		return r, r.elsewhere(output)
	}
	if r.Live {
		return r, fmt.Errorf("recover %s: %w", r.Name, ErrLocked)
	}
	if strings.HasSuffix(r.Name, extIET) && exists(r.Name+extBuffer) {
		if r, err = r.bringIn(); err != nil {
			return r, fmt.Errorf("recover: %w", openError(err))
		}
	}
	r.Output = name
	if strings.HasSuffix(name, extIET) && !strings.HasSuffix(r.Name, extIET) {
		r.Output = r.Name // it was finished already
	}
	if r.Output == r.Name && r.Reason == CutClean {
		return r, nil
	}
	f, err := osfile.OpenWrite(r.Name)
	if err != nil {
		return r, fmt.Errorf("recover: %w", openError(err))
	}
	defer f.Close()
	if err := lock(f, true); err != nil {
		return r, fmt.Errorf("recover: %w", err)
	}
	if fi, err := f.Stat(); err != nil || fi.Size() != r.Size || !osfile.SameFile(f, r.Name) {
		// Its writer was at work until now, or finished it.
		return nil, errors.Join(fmt.Errorf("recover %s: it changed meanwhile: %w", r.Name, ErrLocked), err)
	}
	return r, r.inPlace(f)
}

// orphan makes an IET for a crash buffer that has none.
func orphan(name string) error {
	stream := streamName(name)
	if exists(name) || exists(stream) || !exists(stream+extBuffer) {
		return nil
	}
	if err := undoRotation(stream); err != nil || exists(stream) {
		return err
	}
	f, err := osfile.CreateAppend(stream)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := lock(f, true); err != nil {
		return err
	}
	n, err := importJournal(f, stream, func(error) {})
	if err == nil && n == 0 {
		err = osfile.Remove(f, stream) // there was nothing in it
	}
	return err
}

// bringIn brings the crash buffer of a dead file into it, and returns a report on
// what it is then.
func (r *Report) bringIn() (*Report, error) {
	f, err := osfile.OpenWrite(r.Name)
	if err != nil {
		return r, err
	}
	defer f.Close()
	if err := lock(f, true); err != nil {
		return r, err
	}
	if !osfile.SameFile(f, r.Name) {
		return r, ErrLocked // its writer, or somebody else, was at work until now
	}
	broken := ""
	if r.Reason == CutCorrupt {
		broken = r.Name + ".broken"
		if err := copyFile(f, broken); err != nil {
			return r, err
		}
	}
	b, err := openBuffer(r.Name, true)
	if errors.Is(err, journal.ErrGone) {
		r.JournalLost = true
		_, err = journal.RemoveGone(r.Name + extBuffer)
	}
	if err != nil {
		return r, err
	}
	if b != nil {
		if err := b.replay(f, broken != ""); err != nil {
			return r, errors.Join(err, b.close())
		}
		if err := b.remove(); err != nil {
			return r, err
		}
	}
	if err := f.Close(); err != nil {
		return r, err
	}
	now, err := Inspect(r.Name)
	if err != nil {
		return r, err
	}
	now.Pending, now.BufferDamaged, now.JournalLost = r.Pending, r.BufferDamaged, r.JournalLost
	if broken != "" {
		now.Broken = broken
	}
	return now, nil
}

// copyFile makes name a copy of f.
func copyFile(f *os.File, name string) error {
	tmp, err := osfile.CreateTemp(name)
	if err != nil {
		return err
	}
	defer tmp.Discard()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if _, err := io.Copy(tmp, io.NewSectionReader(f, 0, fi.Size())); err != nil {
		return err
	}
	return tmp.Commit(false)
}

// elsewhere saves what is whole to another file, and leaves the source and its
// crash buffer as they are.
func (r *Report) elsewhere(output string) error {
	if r.Pending == 0 {
		return copyPrefix(r, output, false)
	}
	b, err := openBuffer(r.Name, false)
	if err != nil {
		return err
	}
	if b == nil {
		return fmt.Errorf("recover %s: it changed meanwhile: %w", r.Name, ErrLocked)
	}
	defer b.f.Close()
	src, err := osfile.OpenRead(r.Name)
	if err != nil {
		return openError(err)
	}
	defer src.Close()
	tmp, err := osfile.CreateTempAppend(output)
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	defer tmp.Close()
	_, err = io.Copy(tmp, src)
	if err == nil {
		err = b.replay(tmp, true)
	}
	if err != nil {
		return err
	}
	whole, err := Inspect(tmp.Name())
	if err != nil {
		return err
	}
	return copyPrefix(whole, output, false)
}

// inPlace finishes the dead file f.
func (r *Report) inPlace(f *os.File) error {
	if r.Reason == CutCorrupt {
		r.Broken = r.Name + ".broken"
	}
	switch {
	case r.Output != r.Name: // the IET of an ET
		err := finalizeOpen(context.Background(), f, r.Name, r.Output, &FinalizeOptions{RemoveSource: r.Broken == "", lenient: true})
		if err == nil && r.Broken != "" {
			err = errors.Join(osfile.RenameOpen(f, r.Name, r.Broken), osfile.SyncDir(r.Name))
		}
		return err
	case r.Broken == "" && r.Format != ET:
		return errors.Join(f.Truncate(r.GoodBytes), f.Sync())
	}
	r.Broken = r.Name + ".broken"
	return copyPrefix(r, r.Name, true)
}

// copyPrefix writes the whole entries of r.Name to output. With keep, which is
// for output being r.Name, the original moves to r.Broken.
func copyPrefix(r *Report, output string, keep bool) error {
	src, err := osfile.OpenRead(r.Name)
	if err != nil {
		return openError(err)
	}
	defer src.Close()
	tmp, err := osfile.CreateTemp(output)
	if err != nil {
		return err
	}
	defer tmp.Discard()
	format := ET
	if strings.HasSuffix(output, extIET) {
		format = IET
	}
	if keep {
		format = r.Format
	}
	if err := copyEntries(tmp, src, r, format); err != nil {
		return err
	}
	if keep {
		if err := osfile.RenameNew(r.Name, r.Broken); err != nil {
			return err
		}
	}
	return tmp.Commit(false)
}

func copyEntries(w io.Writer, src io.Reader, r *Report, format StorageFormat) error {
	in, err := NewReader(src, nil)
	if err != nil && r.Entries > 0 {
		return err
	}
	out, err := NewWriter(w, r.Version, format, nil)
	if err != nil {
		return err
	}
	for range r.Entries {
		e, err := in.Next()
		if err == nil {
			_, err = out.WriteRaw(in.Raw(), e.Parent)
		}
		if err != nil {
			return errors.Join(err, out.Abort())
		}
	}
	return out.Close()
}
