package deadtrace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/tracename"
)

// Recover finishes the file name if it exists, else the stream from which this trace would be made. If
// output is not empty, Recover writes the file output and changes no other file.
func Recover(name, output string) (*Result, error) {
	if output != "" {
		r, err := Inspect(name)
		if err == nil {
			r.Output = output
			r.Entries, err = save(r.Name, output)
		}
		return r, err
	}
	r, err := recoverInPlace(name)
	if err != nil {
		err = fmt.Errorf("recover: %w", err)
	}
	return r, err
}

func recoverInPlace(name string) (*Result, error) {
	stream := tracename.Stream(name)
	if name != stream && osfile.Exists(name) || !osfile.Exists(stream) && !osfile.Exists(stream+tracename.Journal) {
		return mendFile(name)
	}
	r, err := Finish(context.Background(), stream, &Options{IET: name == stream, Final: name})
	if errors.Is(err, format.ErrUnsupported) { // the file is an IETPrefix or ET
		r, err = mendFile(stream)
		if err == nil && r.Format != format.ET && name != stream {
			r.Output, r.Changed = name, true
			err = format.Finalize(context.Background(), stream, name, &format.FinalizeOptions{RemoveSource: true})
		}
		return r, err
	}
	if r != nil || err != nil && name != stream {
		return r, err
	}
	// Nothing was done: nothing was left to do, or the caller may not write to the file.
	now, ierr := Inspect(name)
	if now != nil {
		now.Output = now.Name
	}
	switch {
	case err == nil, ierr != nil && errors.Is(err, format.ErrNotRegular):
		return now, ierr
	case ierr == nil && !now.Live && now.Reason == mapping.CutClean && now.Pending == 0 && now.Format == format.IET:
		return now, nil
	}
	return nil, err
}

// mendFile finishes in place the file name, which is not a stream of a recorder, and keeps its whole
// entries. If the file is an ET, mendFile also removes the stream of this ET, which a killed process may
// have left.
func mendFile(name string) (*Result, error) {
	r, err := reportOn(name)
	if err != nil {
		return nil, err
	}
	r.Output = r.Name
	if r.Live {
		return r, fmt.Errorf("recover %s: %w", r.Name, format.ErrLocked)
	}
	if r.Reason == mapping.CutClean {
		return r, removeLeftover(r)
	}
	f, err := osfile.OpenWrite(r.Name)
	if err != nil {
		return r, fmt.Errorf("recover: %w", err)
	}
	defer f.Close()
	if err := lock(f); err != nil {
		return r, fmt.Errorf("recover: %w", err)
	}
	if fi, err := f.Stat(); err != nil || fi.Size() != r.Size || !osfile.SameFile(f, r.Name) {
		// The writer has changed or finished the file just now.
		return nil, errors.Join(fmt.Errorf("recover %s: the file changed during the recovery: %w", r.Name, format.ErrLocked), err)
	}
	r.Changed = true
	if r.Reason != mapping.CutCorrupt && r.Format != format.ET {
		return r, errors.Join(f.Truncate(r.GoodBytes), f.Sync())
	}
	r.Broken, err = linkBroken(f, r.Name)
	if err != nil {
		return r, err
	}
	return r, replace(r.Name)
}

// removeLeftover removes the IET from which the ET r.Name was made. It exists if a process was killed just
// after it had made the ET.
func removeLeftover(r *Result) error {
	stream := tracename.Stream(r.Name)
	if r.Format != format.ET || stream == r.Name || !osfile.Exists(stream) {
		return nil
	}
	d := newDead(stream, new(Options))
	d.final = r.Name
	in, err := d.look()
	if err != nil || in != stateLeftover && in != stateEmpty {
		return d.close() // this is the IET of another trace, or of a living process
	}
	_, err = d.act(context.Background(), in)
	return errors.Join(err, d.close())
}

// isStream reports whether name is the name of an IET.
func isStream(name string) bool { return strings.HasSuffix(name, tracename.IET) }

// reportOn returns a report on the whole entries of the file name.
func reportOn(name string) (*Result, error) {
	f, err := format.Open(name, &format.OpenOptions{Prefix: true})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := f.Report()
	if err != nil {
		return nil, err
	}
	return &Result{Report: Report{Report: *r}}, nil
}

// Inspect reports the whole entries of the file name, and the entries in the journal of a dead writer. It
// changes nothing.
func Inspect(name string) (*Result, error) {
	r, err := reportOn(name)
	if err != nil || r.Live || !isStream(r.Name) {
		return r, err
	}
	b, err := openJournalTail(r.Name, false)
	if isUnreachable(err) {
		r.Journal, err = err, nil
	}
	if err != nil || b == nil {
		return r, err
	}
	in, err := osfile.OpenRead(r.Name)
	if err != nil {
		return r, errors.Join(err, b.close())
	}
	defer in.Close()
	s, _, err := b.survey(in, r.Size)
	r.Journal = cmp.Or(r.Journal, b.damage(), err)
	if err == nil {
		r.Pending = b.pending(s)
	}
	return r, b.close()
}
