package entrybytes

// A Window returns the encodings of entries. It copies 64 KiB of the file with one call of Entries.View, because
// such a call costs more than copying one entry. A Window is not safe for concurrent use.
type Window struct {
	entries  Entries
	near     []byte // a copy of the bytes of the file between the offsets from and to
	from, to int64
	one      []byte    // an entry that is not in near
	last     int64     // the offset of the entry that was returned last
	given    [2][]byte // with Overwrite: the copies that the last two calls returned, the latest first
}

// Overwrite reports whether a Window overwrites an entry that is no longer valid, unless it is nil. Tests set it to find
// code that uses an entry for too long. Without it, such code works as long as the file is small.
var Overwrite func() bool

// Spoil overwrites b if Overwrite returns true. b is an entry that is no longer valid.
func Spoil(b []byte) {
	if Overwrite == nil || !Overwrite() {
		return
	}
	for i := range b {
		b[i] = 0xdb // text of this byte is not valid UTF-8
	}
}

const (
	// windowSize is the number of bytes that are read at once.
	windowSize = 64 << 10
	// windowBefore is how many of these bytes precede the requested entry.
	windowBefore = windowSize / 4
)

// Entry returns the encoding of the entry of e with the given id. The slice is valid until the next call.
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

// read fills w.near with the bytes around the offset off.
func (w *Window) read(e Entries, off int64) {
	from := max(off-windowBefore, e.Offset(0))
	to := min(from+windowSize, e.End())
	w.near, w.from, w.to = w.near[:0], from, from
	if e.View(from, to-from, func(b []byte) { w.near = append(w.near, b...) }) == nil {
		w.to = to
	}
}
