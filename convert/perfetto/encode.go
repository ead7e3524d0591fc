package perfetto

import (
	"bufio"
	"cmp"
	"context"
	"io"
	"math"
	"strconv"

	"github.com/entrace-go/entrace/internal/read/timeline"
	"github.com/entrace-go/entrace/view"
)

// bufferSize is the number of bytes that are buffered before a write.
const bufferSize = 128 << 10

// Encode writes the trace v to w. In memory it needs about 6 bytes for each span, span event and log record, and 16
// for each arrow. It reads everything else while it writes. Encode returns errors of the trace's file, of w, and of
// ctx.
func Encode(ctx context.Context, w io.Writer, v *view.View) error {
	t, err := timeline.NewTimeline(ctx, v)
	if err != nil {
		return err
	}
	if err := t.Arrows(ctx); err != nil {
		return err
	}
	e := &encoder{w: bufio.NewWriterSize(w, bufferSize), t: t, shift: min(t.First, 0)}
	e.clocks()
	for i := range t.Processes {
		if err := e.process(i); err != nil {
			return err
		}
	}
	if err := t.Detailed(ctx, e.moment); err != nil {
		return err
	}
	return cmp.Or(e.flush(), e.w.Flush())
}

type encoder struct {
	w     *bufio.Writer
	t     *timeline.Timeline
	b     []byte // bytes that are not yet written to w
	shift int64  // the time of timestamp 0, in nanoseconds since 1970

	categories, names, args interner
}

// flush writes b to w.
func (e *encoder) flush() error {
	_, err := e.w.Write(e.b)
	e.b = e.b[:0]
	return err
}

// track returns the id of a track. The upper half is the index of the process plus 1. The lower half is the number
// of the lane, from 1 on, or 0 for the track of the process itself.
func track(process, lane int32) uint64 { return uint64(process+1)<<32 | uint64(lane+1) }

// sequence is the sequence id of all packets. Readers ignore events without one.
const sequence = 1

// packet begins a packet. It returns the offset to pass to end.
func (e *encoder) packet() int {
	b, at := open(e.b, tracePacket)
	e.b = appendUint(b, packetSequence, sequence)
	return at
}

// clocks writes the first packet, which defines the clocks of timestamps.
func (e *encoder) clocks() {
	at := e.packet()
	e.b = appendUint(e.b, packetFlags, flagCleared)
	e.b = appendUint(e.b, packetFirst, 1)
	b, clocks := open(e.b, packetClocks)
	first := e.time(e.t.First)
	for _, id := range []uint64{clockBootTime, clockRealtime} {
		if id == clockRealtime && (e.shift != 0 || e.t.Made) {
			continue // REALTIME cannot represent times before 1970, and is wrong for made times
		}
		var clock int
		b, clock = open(b, clocksClock)
		b = appendUint(b, clockID, id)
		b = end(appendUint(b, clockTime, first), clock)
	}
	e.b = end(end(b, clocks), at)
}

// time returns the timestamp of a packet, limited to the 63 bits that readers support.
func (e *encoder) time(at int64) uint64 {
	return min(uint64(at-e.shift), math.MaxInt64)
}

// process writes the track of a resource and the tracks of its lanes.
func (e *encoder) process(i int) error {
	p := &e.t.Processes[i]
	name, r, err := e.t.Resource(i)
	if err != nil {
		return err
	}
	at := e.packet()
	b, descriptor := open(e.b, packetDescriptor)
	b = appendUint(b, trackUUID, track(int32(i), -1))
	b = appendUint(b, trackOrdering, byRank)
	b, process := open(b, trackProcess)
	b = appendUint(b, processPID, uint64(i)+1)
	b = appendText(b, processName, name)
	for j := range r.Attributes {
		v := r.Attributes[j].Any()
		b = appendText(b, processLabels, r.Attributes[j].Name+"="+v.Display())
	}
	e.b = end(end(end(b, process), descriptor), at)
	for lane := range p.Lanes {
		if err := e.lane(int32(i), lane, "lane "+strconv.Itoa(int(lane)+1)); err != nil {
			return err
		}
	}
	if p.Logs {
		return e.lane(int32(i), p.Lanes, "logs")
	}
	return e.flush()
}

func (e *encoder) lane(process, lane int32, name string) error {
	at := e.packet()
	b, descriptor := open(e.b, packetDescriptor)
	b = appendUint(b, trackUUID, track(process, lane))
	b = appendUint(b, trackParent, track(process, -1))
	b = appendText(b, trackName, name)
	b = appendUint(b, trackRank, uint64(lane)+1)
	b = appendUint(b, trackMerge, mergeNone)
	e.b = end(end(b, descriptor), at)
	return e.flush()
}

// moment writes one event.
func (e *encoder) moment(m *timeline.Moment, d *timeline.Details) error {
	at := e.packet()
	e.b = appendUint(e.b, packetTime, e.time(m.Time))
	if m.Kind == timeline.Ends {
		b, event := open(e.b, packetEvent)
		b = appendUint(b, eventType, typeEnd)
		b = appendUint(b, eventTrack, track(m.Group, m.Lane))
		e.b = end(end(b, event), at)
		return e.flush()
	}
	e.b = appendUint(e.b, packetFlags, flagNeeds)
	b, event := open(e.b, packetEvent)
	if m.Kind == timeline.Begins {
		b = appendUint(b, eventType, typeBegin)
	} else {
		b = appendUint(b, eventType, typeInstant)
	}
	b = appendUint(b, eventTrack, track(m.Group, m.Lane))
	b = appendUint(b, eventCategory, e.categories.id(d.Category))
	if id := e.nameID(d); id != 0 {
		b = appendUint(b, eventNameID, id)
	} else {
		b = appendText(b, eventName, d.Name)
	}
	for _, f := range m.Flows {
		if f.Start() {
			b = appendFixed(b, eventFlow, uint64(f.Flow()))
		} else {
			b = appendFixed(b, eventFlowEnd, uint64(f.Flow()))
		}
	}
	if m.Kind == timeline.Begins && d.TraceID != "" {
		b = appendText(b, eventTraceID, d.TraceID)
	}
	b = end(e.appendArgs(b, d), event)
	e.b = end(e.interned(b), at)
	return e.flush()
}

// nameID returns the number of an event's name, or 0 if the name is not interned. Messages of log records are not
// interned, because few of them repeat.
func (e *encoder) nameID(d *timeline.Details) uint64 {
	if d.Role == view.RoleLog {
		return 0
	}
	return e.names.id(d.Name)
}
