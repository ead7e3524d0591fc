package format

import (
	"errors"

	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/file/osfile"
)

// A Report says how many complete entries a file has, and why these entries end.
type Report struct {
	Name      string // the name of the file
	Version   Version
	Format    StorageFormat
	Entries   int    // the number of complete entries
	Size      int64  // the size of the file in bytes
	GoodBytes int64  // the size from the start of the file to the end of the last complete entry
	Reason    string // why the complete entries end: "clean", "torn", "zero_tail" or "corrupt"
	Damage    error  // the details of Reason: a [*TruncatedError] or [*CorruptError]
	Ended     bool   // the last entry marks a clean end
	Live      bool   // a living process is writing the file
}

// Report returns a report about a file that was opened with [OpenOptions].Prefix. Package recorder's Inspect also
// counts the entries in a journal.
func (f *File) Report() (*Report, error) {
	r := &Report{
		Name: f.name, Version: f.version, Format: f.format, Entries: f.Len(), Size: f.Size(), GoodBytes: f.WholeSize(),
		Reason: CutReasonOf(f.damage), Damage: f.damage, Live: osfile.Locked(f.name),
	}
	if r.Entries == 0 && f.damage != nil && f.format == ET {
		r.GoodBytes = wire.MagicSize // without complete entries the tables are useless
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

// CutReasonOf returns the [Report].Reason for err, a result of [File.Damage].
func CutReasonOf(err error) string {
	if err == nil {
		return mapping.CutClean
	}
	if t, ok := errors.AsType[*TruncatedError](err); ok {
		if t.ZeroTail {
			return mapping.CutZeroTail
		}
		return mapping.CutTorn
	}
	return mapping.CutCorrupt
}
