package format

import (
	"context"
	"math"
)

// A Tee gets what a [Recorder] writes to its file, as soon as it is there: package
// remote sends it over the network. Its methods are called one at a time, with the
// recorder's lock held: they must return at once and must not record.
type Tee interface {
	// Begin says that a file of version v begins, whose ids count from its root,
	// id 0, which is not handed over. Another Begin is for the file after a
	// rotation.
	Begin(v Version)
	// Take gets entries in the order of their ids. Neither the slice nor what is
	// in it may be kept.
	Take(entries []TeeEntry)
	// Close is called by the last [Recorder.Close], after the last Take.
	Close(ctx context.Context) error
}

// A TeeEntry is an entry that a [Recorder] has written.
type TeeEntry struct {
	ID, Parent uint32
	Ref        SpanRef // of a span; zero for others, and for a span's end
	Resource   bool    // it is a [Recorder.Resource]
	Raw        []byte  // its encoding
}

// teeBatch is how many entries are handed over at once.
const teeBatch = 256

// teed hands over the first kept of what is staged, which is in the file now.
func (r *Recorder) teed(kept int) {
	if r.o.Tee == nil {
		return
	}
	from := 0
	for i := range r.staged[:kept] {
		s := &r.staged[i]
		e := TeeEntry{ID: s.id, Parent: s.parent, Resource: s.resource != nil, Raw: r.out[from:s.end:s.end]}
		if s.isSpan {
			e.Ref = s.ref
		}
		if r.forTee = append(r.forTee, e); len(r.forTee) == teeBatch {
			r.handOver()
		}
		from = s.end
	}
	r.handOver()
}

func (r *Recorder) handOver() {
	if len(r.forTee) > 0 {
		r.o.Tee.Take(r.forTee)
		clear(r.forTee) // nothing keeps what is staged
		r.forTee = r.forTee[:0]
	}
}

// closeTee ends what gets the entries.
func (r *Recorder) closeTee(ctx context.Context) error {
	if r.o.Tee == nil {
		return nil
	}
	return r.o.Tee.Close(ctx)
}

// A heldTee keeps what goes to a file that may not come to be.
type heldTee struct{ entries []TeeEntry }

func (*heldTee) Begin(Version)               {}
func (*heldTee) Close(context.Context) error { return nil }

func (h *heldTee) Take(entries []TeeEntry) {
	for _, e := range entries {
		e.Raw = append([]byte(nil), e.Raw...)
		h.entries = append(h.entries, e)
	}
}

// hold returns a Tee for a file that is to follow, nil if nobody wants one.
func (r *Recorder) hold() Tee {
	if r.o.Tee == nil {
		return nil
	}
	return new(heldTee)
}

// follow hands over what h has held, now that the file is there.
func (r *Recorder) follow(h Tee) {
	held, ok := h.(*heldTee)
	if !ok {
		return
	}
	r.o.Tee.Begin(r.version)
	if len(held.entries) > 0 {
		r.o.Tee.Take(held.entries)
	}
}

// Stream returns a recorder without a file: what it takes goes to the Tee of o
// alone, nothing survives the process, and Close ends the Tee. Options that are
// about files have no effect. It takes as many entries as 32 bits count.
func Stream(o *RecorderOptions) *Recorder {
	opt := *o
	opt.Durability = DurabilityBuffered
	opt.MaxFileSize, opt.MaxFileAge, opt.MaxFileEntries = 0, 0, 0
	r := newRecorder(nil, &opt)
	r.w = noFile{}
	r.index.broken = true // nobody asks for it
	r.slot, r.refs = &slot{recorder: r}, 1
	r.on.Store(math.MaxUint64)
	_ = r.begin() // which cannot fail
	r.startBuffer()
	return r
}

// A noFile is the file of a recorder that has none.
type noFile struct{}

func (noFile) Write(b []byte) (int, error)       { return len(b), nil }
func (noFile) ReadAt([]byte, int64) (int, error) { return 0, ErrShrunk }
func (noFile) Truncate(int64) error              { return nil }
func (noFile) Sync() error                       { return nil }
