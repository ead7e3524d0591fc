package recorder

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/crashtext"
	"github.com/entrace-go/entrace/internal/osfile"
	"github.com/entrace-go/entrace/internal/raw"
	"github.com/entrace-go/entrace/internal/tracename"
)

// A Report says what is whole in a file and in the journal of its writer, and what Recover did.
type Report struct {
	format.Report

	// Pending is how many entries the crash buffer of a dead writer holds that
	// are not in the file. Recover has brought them in.
	Pending int
	// Journal is why what a dead writer left in its journal cannot be read, nil if it can:
	// [ErrJournalGone], [ErrJournalElsewhere], or the damage. Recover renames a damaged
	// journal to NAME.TIME.buffer.broken, and finishes the file without one that is gone or
	// out of reach, of which it speaks once.
	Journal error

	// What Recover has made, which is Name again when there was nothing to do.
	Output string
	// Broken is where Recover put a corrupt original, if it did.
	Broken string
}

// Finished says in a line for people what Recover has done.
func (r *Report) Finished() string {
	did := "finished"
	switch {
	case r.Output != r.Name && osfile.Exists(r.Name):
		did = "saved"
	case r.Output == r.Name && r.Reason == format.CutClean && r.Pending == 0 && r.Ended:
		did = "complete"
	}
	s := fmt.Sprintf("%s: %s, %d entries", r.Output, did, r.Entries)
	if r.Entries == 1 {
		s = strings.TrimSuffix(s, "entries") + "entry"
	}
	if r.Pending > 0 {
		s += fmt.Sprintf(" (%d from the crash buffer)", r.Pending)
	}
	return s
}

func isUnreachable(err error) bool {
	return errors.Is(err, ErrJournalGone) || errors.Is(err, ErrJournalElsewhere)
}

// Inspect says what is whole in the file name, or in what [Create] left of it, and what waits in
// the journal of a writer that died. It changes nothing. A file that is no trace at all is an error,
// as in [format.Open].
func Inspect(name string) (*Report, error) {
	f, err := format.Open(name, &format.OpenOptions{Prefix: true})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	file, err := f.Report()
	if err != nil {
		return nil, err
	}
	r := &Report{Report: *file}
	if r.Live || !strings.HasSuffix(r.Name, tracename.IET) {
		return r, nil
	}
	r.Pending, r.Journal, err = pending(f)
	return r, err
}

// pending returns how many entries the crash buffer of the dead writer of f holds that are
// not in f, and why data in it cannot be read.
func pending(f *format.File) (n int, missing, err error) {
	b, err := openBuffer(f.Name(), false)
	if isUnreachable(err) {
		missing, err = err, nil
	}
	if err != nil || b == nil {
		return 0, missing, err
	}
	if n = b.entries; b.text != "" && !b.hasText(f) {
		n++
	}
	if b.point.size <= f.WholeSize() {
		// What the file has behind the checkpoint's size is in the buffer, too.
		all := f.Raw()
		for i := f.Len(); i > 0 && all.Offset(uint32(i)) > b.point.size; i-- {
			n--
		}
	}
	return max(n, 0), cmp.Or(missing, b.damage()), b.close()
}

// Recover saves the longest whole prefix of the file name, or of what [Create]
// left of it.
//
// With an output it writes that, a new file, IET if it is called x.iet and else
// ET, and leaves the source as it is. Without one it finishes the file in place:
// a trace that was to become app.et becomes that, an x.iet is cut to its whole
// entries. If there was a journal and no clean end, the last entry is [format.NameRecovered] then. It is,
// with [format.AttrDamage], of an ET that has lost its end.
// A corrupt original is kept beside it as FILE.broken. A file that a
// living process writes is [format.ErrLocked] then. An IET cannot end with entries of nothing
// but zeros: those are left out of it, and not counted. Recovering a whole file again does
// nothing.
func Recover(name, output string) (*Report, error) {
	return recoverFile(context.Background(), name, output)
}

func recoverFile(ctx context.Context, name, output string) (*Report, error) {
	if output == "" {
		if err := createFromJournal(name); err != nil {
			return nil, fmt.Errorf("recover: %w", err)
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
		return r, fmt.Errorf("recover %s: %w", r.Name, format.ErrLocked)
	}
	if strings.HasSuffix(r.Name, tracename.IET) && (osfile.Exists(r.Name+tracename.Journal) || osfile.Exists(r.Name+crashtext.Ext)) {
		if r, err = r.bringIn(); err != nil {
			return r, fmt.Errorf("recover: %w", err)
		}
	}
	r.Output = name
	if strings.HasSuffix(name, tracename.IET) && !strings.HasSuffix(r.Name, tracename.IET) {
		r.Output = r.Name // it was finished already
	}
	if r.Output == r.Name && r.Reason == format.CutClean {
		return r, r.removeSource()
	}
	f, err := osfile.OpenWrite(r.Name)
	if err != nil {
		return r, fmt.Errorf("recover: %w", err)
	}
	defer f.Close()
	if err := lock(f, true); err != nil {
		return r, fmt.Errorf("recover: %w", err)
	}
	if fi, err := f.Stat(); err != nil || fi.Size() != r.Size || !osfile.SameFile(f, r.Name) {
		// Its writer was at work until now, or finished it.
		return nil, errors.Join(fmt.Errorf("recover %s: it changed meanwhile: %w", r.Name, format.ErrLocked), err)
	}
	return r, r.inPlace(ctx, f)
}

// removeSource removes the IET of the ET r.Name if a recovery was killed when it had made
// the one of the other.
func (r *Report) removeSource() error {
	stream := tracename.Stream(r.Name)
	if r.Format != format.ET || stream == r.Name || !osfile.Exists(stream) {
		return nil
	}
	f, err := osfile.OpenWrite(stream)
	if err != nil {
		return nil //nolint:nilerr // it is not of this trace
	}
	defer f.Close()
	if osfile.Lock(f, true) != nil || !osfile.SameFile(f, stream) {
		return nil // somebody records the next trace
	}
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	t, damage := scan(f, fi.Size())
	if t.entries == 0 || !sameEntries(r.Name, f, t) {
		return nil
	}
	if isCorrupt(damage) {
		if r.Broken, err = linkBroken(f, stream); err != nil {
			return err
		}
	}
	return errors.Join(osfile.Remove(f, stream), osfile.SyncDir(stream))
}

// createFromJournal makes an IET for a crash buffer that has none.
func createFromJournal(name string) error {
	stream := tracename.Stream(name)
	if osfile.Exists(name) || osfile.Exists(stream) || !osfile.Exists(stream+tracename.Journal) {
		return nil
	}
	// One that rotates has none either, for a moment.
	b, err := openBuffer(stream, false)
	if err == nil {
		err = b.close()
	}
	if errors.Is(err, format.ErrLocked) || errors.Is(err, ErrJournalElsewhere) {
		return err
	}
	if err := undoRotation(stream); err != nil || osfile.Exists(stream) {
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
		return r, format.ErrLocked // its writer, or somebody else, was at work until now
	}
	broken := ""
	if r.Reason == format.CutCorrupt {
		if broken, err = copyBroken(f, r.Name); err != nil {
			return r, err
		}
	}
	b, err := openBuffer(r.Name, true)
	if isUnreachable(err) {
		b, err = withoutJournal(r.Name)
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
	} else {
		_ = os.Remove(r.Name + crashtext.Ext) // there is nothing in it
	}
	if err := f.Close(); err != nil {
		return r, err
	}
	now, err := Inspect(r.Name)
	if err != nil {
		return r, err
	}
	now.Pending, now.Journal = r.Pending, r.Journal
	if broken != "" {
		now.Broken = broken
	}
	return now, nil
}

// copyBroken makes a copy of the file name, which f is and which is corrupt, and returns
// its name. A copy that a killed recovery has left is taken for it.
func copyBroken(f *os.File, name string) (broken string, err error) {
	fi, err := f.Stat()
	if err != nil {
		return "", err
	}
	err = untilFree(name, ".broken", func(to string) error {
		broken = to
		if same, err := hasBytes(to, f, fi.Size()); same || err != nil {
			return err
		}
		tmp, err := osfile.CreateTemp(to)
		if err != nil {
			return err
		}
		defer tmp.Discard()
		if _, err := io.Copy(tmp, io.NewSectionReader(f, 0, fi.Size())); err != nil {
			return err
		}
		return tmp.Commit(false)
	})
	return broken, err
}

// hasBytes reports whether the file name holds the first size bytes of f. It is
// [fs.ErrExist] if it holds others.
func hasBytes(name string, f io.ReaderAt, size int64) (bool, error) {
	o, err := osfile.OpenRead(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fs.ErrExist
	}
	defer o.Close()
	if fi, err := o.Stat(); err != nil || fi.Size() != size {
		return false, fs.ErrExist
	}
	a, b := make([]byte, flushSize), make([]byte, flushSize)
	for at := int64(0); at < size; {
		n := min(flushSize, size-at)
		if _, err := f.ReadAt(a[:n], at); err != nil {
			return false, err
		}
		if _, err := o.ReadAt(b[:n], at); err != nil || !bytes.Equal(a[:n], b[:n]) {
			return false, fs.ErrExist
		}
		at += n
	}
	return true, nil
}

// elsewhere saves what is whole to another file, and leaves the source and its
// crash buffer as they are.
func (r *Report) elsewhere(output string) error {
	src, err := openSource(r.Name, true)
	if err != nil {
		return err
	}
	f, err := format.OpenMapped(src.File, src.name, src.stored, src.missing, &format.OpenOptions{Prefix: true})
	if err != nil {
		return err
	}
	defer f.Close()
	r.Entries, err = copyTo(f, output, false)
	return err
}

// inPlace finishes the dead file f.
func (r *Report) inPlace(ctx context.Context, f *os.File) error {
	corrupt := r.Reason == format.CutCorrupt
	switch {
	case r.Output != r.Name: // the IET of an ET
		if corrupt {
			var err error
			if r.Broken, err = linkBroken(f, r.Name); err != nil {
				return err
			}
		}
		return format.FinalizeFile(ctx, f, r.Name, r.Output, &format.FinalizeOptions{RemoveSource: true, Lenient: true})
	case !corrupt && r.Format != format.ET:
		return errors.Join(f.Truncate(r.GoodBytes), f.Sync())
	}
	var err error
	if r.Broken, err = linkBroken(f, r.Name); err != nil {
		return err
	}
	whole, err := format.Open(r.Name, &format.OpenOptions{Prefix: true})
	if err != nil {
		return err
	}
	defer whole.Close()
	_, err = copyTo(whole, r.Name, true)
	return err
}

// linkBroken gives the file name, which f is and which is to be replaced, a second name, or
// makes a copy where there are no links.
func linkBroken(f *os.File, name string) (broken string, err error) {
	err = untilFree(name, ".broken", func(to string) error {
		broken = to
		err := os.Link(name, to)
		if errors.Is(err, fs.ErrExist) && osfile.SameFile(f, to) {
			return nil // a killed recovery has left it
		}
		return err
	})
	if err != nil {
		return copyBroken(f, name)
	}
	return broken, nil
}

// copyTo writes the entries of f to output, and returns how many that are. If f is an ET that has
// lost its end, one more says so. With replace output is the file that f is, and keeps its format.
func copyTo(f *format.File, output string, replace bool) (n int, err error) {
	tmp, err := osfile.CreateTemp(output)
	if err != nil {
		return 0, err
	}
	defer tmp.Discard()
	to := format.ET
	if strings.HasSuffix(output, tracename.IET) {
		to = format.IET
	}
	if replace {
		to = f.Format()
	}
	out, err := format.NewWriter(tmp, f.Version(), to, nil)
	if err != nil {
		return 0, err
	}
	var w raw.Window
	var zeros [][]byte // entries of nothing but zeros, with which an IET cannot end
	all := f.Raw()
	for id := range uint32(f.Len()) {
		b, err := w.Entry(all, id)
		switch {
		case err != nil:
		case to == format.IET && isZero(b):
			zeros = append(zeros, slices.Clone(b))
			continue
		default:
			for ; err == nil && len(zeros) > 0; zeros = zeros[1:] {
				_, err = out.WriteRaw(zeros[0], 0)
			}
			if err == nil {
				_, err = out.WriteRaw(b, f.Parent(id))
			}
		}
		if err != nil {
			return 0, errors.Join(err, out.Abort())
		}
	}
	if f.Format() == format.ET && f.Damage() != nil && f.Len() > 0 {
		if err := markDamaged(out, f); err != nil {
			return 0, errors.Join(err, out.Abort())
		}
	}
	if err := out.Close(); err != nil {
		return 0, err
	}
	return f.Len() - len(zeros), tmp.Commit(replace)
}

// isZero reports whether b is nothing but zeros.
func isZero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }

// markDamaged appends to what is whole in f why there is no more, if its last entry does not say how
// it ended.
func markDamaged(out *format.Writer, f *format.File) error {
	last, err := f.Entry(uint32(f.Len() - 1))
	if err != nil || last.IsEnd() || last.IsRecovered() {
		return err
	}
	e := recoveredEntry()
	e.Attributes = []format.Attribute{{Name: format.AttrDamage, Value: format.StringValue(string(format.CutReasonOf(f.Damage())))}}
	_, err = out.Write(e)
	return err
}
