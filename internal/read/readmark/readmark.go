// Package readmark recognizes what was read of a trace in a file with another name.
//
// A program that is read while it records changes the names of its files. A full file is renamed, and the next one gets
// its name. When the program ends, an ET replaces the IET; if it is killed, recovery writes the ET. So who follows a
// program finds files of which it has read a part already:
//   - [format.Follower] and [format.File] follow one open file, whatever its name is now. They decide that it was cut, and
//     the Follower that it has ended or that its writer is dead.
//   - deadtrace.Rotation finds the files that were renamed.
//   - [Mark] says which of them was read, so that the rest comes next, each entry once.
//
// In which order files are read is different for each of them: tail -f reads one file to its end before it opens the
// next; a page shows the file that has the name, and says which came in between; the receiver of the Collector reads all
// files at once. A log that another program writes has no lock, no end and no copy with another name; cmd/entrace records
// its lines as a trace, and follows that.
package readmark

import (
	"crypto/sha256"
	"slices"

	"github.com/entrace-go/entrace/format"
)

// A Mark identifies the entries that were read of a trace. The zero Mark is that of no entries.
type Mark struct {
	Entries int // their number; if it is not known, -1: then the whole trace was read
	last    [sha256.Size]byte
}

// Of returns the Mark of the first n entries of f. It leaves out an entry that recovery has added at the end, because
// each recovery adds another one.
func Of(f *format.File, n int) Mark {
	for ; n > 0; n-- {
		if e, err := f.Entry(uint32(n - 1)); err == nil && !e.IsRecovered() {
			return Mark{n, hash(e)}
		}
	}
	return Mark{}
}

// OfEnd returns the Mark of a trace that was read up to last, its last entry.
func OfEnd(last *format.TraceEntry) Mark { return Mark{-1, hash(last)} }

// hash returns a hash of an entry, which is the same in every version.
func hash(e *format.TraceEntry) [sha256.Size]byte {
	return sha256.Sum256(format.AppendTraceEntry(nil, format.V1, e))
}

// In reports whether f begins with the entries of m. If so, f is a later state of the same trace.
func (m Mark) In(f *format.File) bool {
	n := m.Entries
	if n < 0 {
		n = f.Len()
	}
	if m == (Mark{}) || n > f.Len() {
		return false
	}
	now := Of(f, n)
	return now.last == m.last && (now.Entries == m.Entries || m.Entries < 0)
}

// After returns the names that come after the file in which one of the marks is. found is false if it is in none: then
// all names are returned.
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
