package format

import "time"

// resource returns the resource of a record's number.
func (r *Recorder) resource(index uint32) *Resource {
	if index == 0 || int(index) > len(r.all) {
		return nil
	}
	return r.all[index-1]
}

// place returns the id of the entry of res, which it stages if need be.
func (r *Recorder) place(res *Resource) uint32 {
	if res == nil {
		return 0
	}
	if res.id == 0 {
		r.stats.Entries.Offered++
		id, err := r.stage(res.body, res.head, 0, nil)
		if err != nil {
			r.drop(err, 1, 0)
			return 0
		}
		res.id = id
		r.staged[len(r.staged)-1].resource = res
		r.ledger.resource(res)
	}
	return res.id
}

// apply gives a record its place. The bytes are used until it returns.
func (r *Recorder) apply(o *record, data []byte) error {
	switch o.kind {
	case opLog:
		return r.applyLog(o)
	case opSpan:
		return r.applySpan(o, data)
	case opEnd, opMore:
		slot := r.spans.get(&o.ref)
		if slot == nil {
			err := ErrNotOpen
			r.drop(err, uint64(countBodies(o.bodies)), 0)
			return err
		}
		err := r.children(o.bodies, slot.id)
		if o.kind == opEnd {
			r.spans.end(o.ref)
		}
		return err
	case opEither:
		return r.applyEither(o, data)
	}
	return nil // of a later version
}

func (r *Recorder) applyLog(o *record) error {
	body, head, _, ok := nextBody(o.bodies)
	if !ok {
		r.drop(ErrTooLarge, 1, 0)
		return ErrTooLarge
	}
	var room [maxOptional]mark
	marks := room[:0]
	var slot *spanSlot
	if o.flags&flagRef != 0 {
		if slot = r.spans.get(&o.ref); slot == nil {
			marks = append(marks, mark{AttrSpanID, o.ref.SpanID[:]}, mark{AttrTraceID, o.ref.TraceID[:]})
		}
	}
	var parent uint32
	switch {
	case slot != nil:
		parent = slot.id
	case o.provider >= firstOther && r.home != 0:
		parent = r.home
	default:
		parent = r.place(r.latest)
	}
	if _, err := r.stage(body, head, parent, marks); err != nil {
		r.drop(err, 1, 0)
		return err
	}
	return nil
}

// children stages entries below parent.
func (r *Recorder) children(bodies []byte, parent uint32) error {
	for {
		body, head, rest, ok := nextBody(bodies)
		if !ok {
			return nil
		}
		if _, err := r.stage(body, head, parent, nil); err != nil {
			r.drop(err, uint64(countBodies(bodies)), 0)
			return err
		}
		bodies = rest
	}
}

// applyEither is applySpan, or writes the end of a span that is here.
func (r *Recorder) applyEither(o *record, data []byte) error {
	_, _, rest, ok := nextBody(o.bodies)
	if !ok {
		return nil
	}
	if slot := r.spans.get(&o.ref); slot != nil {
		err := r.children(rest, slot.id)
		r.spans.end(o.ref)
		return err
	}
	// The last one stays out.
	last := rest
	for {
		_, _, after, ok := nextBody(last)
		if _, _, _, more := nextBody(after); !ok || !more {
			break
		}
		last = after
	}
	o.bodies = o.bodies[:len(o.bodies)-len(last)]
	r.stats.Spans.Offered++
	return r.applySpan(o, data)
}

// applySpan writes a span and what waited for it, or makes it wait.
func (r *Recorder) applySpan(o *record, data []byte) error {
	if o.flags&flagWait != 0 && o.flags&flagRemote == 0 && o.flags&flagParent != 0 && o.parent != o.ref {
		if r.spans.get(&o.parent) == nil && r.wait(o, data) {
			return nil
		}
	}
	if err := r.putSpan(o); err != nil {
		return err
	}
	if r.holds {
		r.held = append(r.held, o.ref)
		return nil
	}
	return r.release(o.ref)
}

// putSpan stages a span: below its parent if that is here, else below its
// resource.
func (r *Recorder) putSpan(o *record) error {
	n := uint64(countBodies(o.bodies))
	body, head, rest, ok := nextBody(o.bodies)
	if !ok {
		r.drop(ErrTooLarge, n, 1)
		return ErrTooLarge
	}
	var slot *spanSlot
	if o.flags&flagParent != 0 {
		slot = r.spans.get(&o.parent)
	}
	below := slot != nil
	var parent uint32
	var marks [maxOptional]mark
	k := 0
	if below {
		parent = slot.id
	} else {
		parent = r.place(r.resource(o.resource))
		if o.flags&flagParent != 0 {
			marks[0], k = mark{AttrParentSpanID, o.parent.SpanID[:]}, 1
		}
	}
	if !below || o.parent.TraceID != o.ref.TraceID {
		marks[k] = mark{AttrTraceID, o.ref.TraceID[:]}
		k++
	}
	if below && o.parent.TraceID != o.ref.TraceID {
		marks[1], marks[0], k = marks[0], mark{AttrParentSpanID, o.parent.SpanID[:]}, 2
	}
	off := r.size + int64(len(r.out))
	id, err := r.stage(body, head, parent, marks[:k])
	if err != nil {
		r.drop(err, n, 1)
		return err
	}
	if o.flags&flagRef != 0 {
		r.spans.put(o.ref, spanSlot{id: id, ended: o.flags&flagOpen == 0, off: off, resource: o.resource, parent: o.parent.SpanID})
	}
	last := &r.staged[len(r.staged)-1]
	last.ref, last.isSpan = o.ref, true
	r.spansStaged++
	return r.children(rest, id)
}

// release writes what waits for ref, and what waits for that, and so on.
func (r *Recorder) release(ref SpanRef) error {
	if r.waiting.spans == 0 {
		return nil
	}
	var errs error
	r.ready = append(r.ready[:0], r.waiting.children(ref)...)
	for i := 0; i < len(r.ready); i++ {
		s := r.ready[i]
		r.ready[i] = nil
		if err := r.putWaiting(s); err != nil {
			errs = err
			continue // its children find another place in time
		}
		r.ready = append(r.ready, r.waiting.children(s.ref)...)
	}
	return errs
}

func (r *Recorder) putWaiting(s *waitingSpan) error {
	r.ledger.unpark(s)
	var o record
	o.parse(s.data)
	if o.kind == opEither {
		o.bodies = o.bodies[:s.bodies]
	}
	return r.putSpan(&o)
}

// wait keeps a span until its parent comes, unless that cannot be done safely.
func (r *Recorder) wait(o *record, data []byte) bool {
	s := &waitingSpan{ref: o.ref, parent: o.parent, since: time.Now(), entries: countBodies(o.bodies), bodies: len(o.bodies)}
	s.data = append([]byte(nil), data...)
	if !r.ledger.park(s) {
		return false
	}
	r.waiting.add(s)
	return true
}
