package format

import (
	"errors"

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

// A Report describes the whole entries of a file, and why they end where they do.
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
}

// Inspect reports on the whole entries of the file name. It changes nothing. A file that is no trace
// is an error, as in [Open]. Package recorder's Inspect also counts what waits in a journal.
func Inspect(name string) (*Report, error) {
	f, err := Open(name, &OpenOptions{Prefix: true})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Report()
}

// Report returns what [Inspect] does of a file that was opened with [OpenOptions].Prefix.
func (f *File) Report() (*Report, error) {
	r := &Report{
		Name: f.name, Version: f.version, Format: f.format, Entries: f.Len(), Size: f.Size(), GoodBytes: f.WholeSize(),
		Reason: CutReasonOf(f.damage), Damage: f.damage, Live: osfile.Locked(f.name),
	}
	if r.Entries == 0 && f.damage != nil && f.format == ET {
		r.GoodBytes = MagicSize // the tables count for nothing without entries
	}
	if n := f.Len(); n > 0 {
		last, err := f.Entry(uint32(n - 1))
		if err != nil {
			return nil, err
		}
		r.Ended = last.IsEnd()
	}
	return r, nil
}

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
