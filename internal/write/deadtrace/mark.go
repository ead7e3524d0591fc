package deadtrace

import (
	"bytes"
	"io"
	"os"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/file/crashtext"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/tracename"
)

// A mark is the last entry of an IET if this entry says how the recording ended. It is found in the last
// bytes.
type mark uint8

const (
	markNone      mark = iota
	markRecovered      // recovery has saved the complete entries
	markRotated        // the writer has begun another file
	markEnd            // the writer has closed the IET
)

// EndsCleanly reports whether the last entry of the IET name is the entry of a clean end. It reads only the
// last bytes.
func EndsCleanly(name string) bool { return markOf(name) >= markRotated }

// IsFinished reports whether the IET name needs no finishing: it has no journal and no text of a crash, and
// either its last entry says how the recording ended, or its user has made it read-only. The IET itself
// need not exist.
func IsFinished(name string) bool {
	if osfile.Exists(name+tracename.Journal) || osfile.Exists(name+crashtext.Ext) {
		return false
	}
	fi, err := os.Lstat(name)
	return err == nil && fi.Mode()&0o200 == 0 || markOf(name) != markNone
}

func markOf(name string) mark {
	f, err := osfile.OpenRead(name)
	if err != nil {
		return markNone
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return markNone
	}
	return lastMark(f, fi.Size())
}

// lastMark returns the mark at the end of f, which has size bytes.
func lastMark(f io.ReaderAt, size int64) mark {
	v, stored, err := format.ReadMagic(f)
	if err != nil || stored != format.IET {
		return markNone
	}
	b := make([]byte, min(size-wire.MagicSize, endSize))
	if _, err := f.ReadAt(b, size-int64(len(b))); err != nil {
		return markNone
	}
	at := max(bytes.LastIndex(b, []byte(mapping.NameEnd)), bytes.LastIndex(b, []byte(mapping.NameRecovered)))
	for from := max(0, at-maxBeforeName); from < at; from++ {
		var e format.TraceEntry
		n, err := format.DecodeTraceEntry(b[from:], v, &e)
		switch {
		case err != nil || n != len(b)-from:
		case e.IsRotated():
			return markRotated
		case e.IsEnd():
			return markEnd
		case e.IsRecovered():
			return markRecovered
		}
	}
	return markNone
}

const (
	endSize       = 4 << 10 // an entry with a mark is smaller
	maxBeforeName = 64      // the maximum number of bytes before the name in an entry with a mark
)
