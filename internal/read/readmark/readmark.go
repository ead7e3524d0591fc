// Package readmark finds the file in which reading must continue after the files of a trace were renamed.
//
// A recording program changes the names of its files. A full file is renamed, and the next file gets its name. When
// the program ends, an ET replaces the IET; if the program is killed, recovery writes the ET. So a reader that
// follows a program finds files under new names that it has already read in part:
//   - [format.Follower] and [format.File] follow one open file, even if it is renamed. They report if the file was
//     truncated. The Follower also reports if the file has ended or its writer is dead.
//   - deadtrace.Rotation finds the files that were renamed.
//   - [Mark] identifies the file that was read, so that each further entry is read once.
//
// Each reader has its own order of files: tail -f reads one file to its end before it opens the next. The page in the
// browser shows the file that has the name now, and names the files that came in between. A log that another program
// writes has no lock, no end and no copy with another name; cmd/entrace records the lines of such a log as a trace, and
// follows that trace.
package readmark

import (
	"crypto/sha256"
	"slices"

	"github.com/entrace-go/entrace/format"
)

// A Mark identifies the entries of a trace that were read. The zero Mark means no entries.
type Mark struct {
	entries int // the number of entries that were read; -1 if the whole trace was read and the number is not known
	last    [sha256.Size]byte
}

// Of returns the Mark of the first n entries of f. It leaves out an entry that recovery has added at the end, because
// each recovery adds a different entry.
func Of(f *format.File, n int) Mark {
	for ; n > 0; n-- {
		if e, err := f.Entry(uint32(n - 1)); err == nil && !e.IsRecovered() {
			return Mark{n, hash(e)}
		}
	}
	return Mark{}
}

// OfEnd returns the Mark of a trace that was read to its end. The parameter last is its last entry.
func OfEnd(last *format.TraceEntry) Mark { return Mark{-1, hash(last)} }

// hash returns a hash of an entry, which is the same in every version.
func hash(e *format.TraceEntry) [sha256.Size]byte {
	return sha256.Sum256(format.AppendTraceEntry(nil, format.V1, e))
}

// In reports whether f begins with the entries of m. If so, f is a later state of the same trace.
func (m Mark) In(f *format.File) bool {
	n := m.entries
	if n < 0 {
		n = f.Len()
	}
	if m == (Mark{}) || n > f.Len() {
		return false
	}
	now := Of(f, n)
	return now.last == m.last && (now.entries == m.entries || m.entries < 0)
}

// After returns the names after the first file that contains one of the marks. If no file contains a mark, found is
// false and After returns all names.
func After(names []string, marks ...Mark) (rest []string, found bool) {
	i := slices.IndexFunc(names, func(name string) bool {
		f, err := format.Open(format.Find(name), &format.OpenOptions{Lenient: true})
		if err != nil {
			return false
		}
		defer f.Close()
		return slices.ContainsFunc(marks, func(m Mark) bool { return m.In(f) })
	})
	return names[i+1:], i >= 0
}
