package entrybytes

// A Window reads the encodings of entries. It reads entries that lie close to each other
// together, because to look at the map of a file costs more than to copy an entry. It is
// not safe for concurrent use.
type Window struct {
	entries  Entries
	near     []byte // what lies between from and to in the file
	from, to int64
	one      []byte    // an entry that is not there
	last     int64     // where the last entry began
	given    [2][]byte // with Overwrite: the copies that the last two calls have returned, the last one first
}

// Overwrite says whether readers overwrite what their last call has lent; nil: they do not. Tests set it, so that
// code which keeps an entry for too long is found, however small the file is.
var Overwrite func() bool

// Spoil overwrites b, which was lent and is valid no more, if Overwrite says so.
func Spoil(b []byte) {
	if Overwrite == nil || !Overwrite() {
		return
	}
	for i := range b {
		b[i] = 0xdb // in no UTF-8
	}
}

const (
	// windowSize is how many bytes are read at once.
	windowSize = 64 << 10
	// windowBefore is how many of them lie before the entry that was asked for.
	windowBefore = windowSize / 4
)

// Entry returns the encoding of entry id of e, which is valid until the next call.
func (w *Window) Entry(e Entries, id uint32) (raw []byte, err error) {
	if Overwrite == nil || !Overwrite() {
		return w.entry(e, id)
	}
	Spoil(w.given[0])
	raw, err = w.entry(e, id)
	w.given[0], w.given[1] = append(w.given[1][:0], raw...), w.given[0]
	return w.given[0], err
}

func (w *Window) entry(e Entries, id uint32) (raw []byte, err error) {
	from, to := e.Offset(id)+int64(e.Gap()), e.Offset(id+1)
	if w.entries != e {
		w.entries, w.from, w.to, w.last = e, 0, 0, from-windowSize
	}
	nearby := from-w.last < windowSize && w.last-from < windowSize
	w.last = from
	if (from < w.from || to > w.to) && nearby && to-from <= windowSize-windowBefore {
		w.read(e, from)
	}
	if from >= w.from && to <= w.to {
		return w.near[from-w.from : to-w.from], nil
	}
	w.one, err = e.Append(w.one[:0], id)
	return w.one, err
}

// read reads what lies around an offset.
func (w *Window) read(e Entries, off int64) {
	from := max(off-windowBefore, e.Offset(0))
	to := min(from+windowSize, e.End())
	w.near, w.from, w.to = w.near[:0], from, from
	if e.View(from, to-from, func(b []byte) { w.near = append(w.near, b...) }) == nil {
		w.to = to
	}
}
