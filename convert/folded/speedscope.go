package folded

import (
	"bufio"
	"context"
	"io"
	"strconv"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/text/jsontext"
	"github.com/entrace-go/entrace/view"
)

// EncodeSpeedscope writes the spans of v to w as a speedscope file, as the documentation of the package
// describes it. It returns the errors of v, w and ctx.
func EncodeSpeedscope(ctx context.Context, w io.Writer, v *view.View) error {
	s, err := read(ctx, v, func(m *format.Metadata) frame {
		return frame{name: m.Name, file: m.File.Value, line: m.Line.Value}
	})
	if err != nil {
		return err
	}
	e := speedscope{stacks: s, out: bufio.NewWriterSize(w, bufferSize)}
	if err := e.write(ctx); err != nil {
		return err
	}
	return e.out.Flush()
}

const speedscopeSchema = "https://www.speedscope.app/file-format-schema.json"

type speedscope struct {
	*stacks

	out *bufio.Writer
	b   []byte // bytes that are not written to out yet
	err error
}

// flush writes b and empties it, if b has at least limit bytes.
func (e *speedscope) flush(limit int) {
	if len(e.b) >= limit && e.err == nil {
		_, e.err = e.out.Write(e.b)
		e.b = e.b[:0]
	}
}

func (e *speedscope) write(ctx context.Context) error {
	e.b = append(e.b, `{"$schema":"`+speedscopeSchema+`","exporter":"entrace","shared":{"frames":[`...)
	for i := range e.names {
		if i > 0 {
			e.b = append(e.b, ',')
		}
		e.frame(&e.names[i])
		e.flush(bufferSize)
	}
	e.b = append(e.b, `]},"profiles":[`...)
	for i, p := range e.profiles() {
		if i > 0 {
			e.b = append(e.b, ',')
		}
		if err := e.profile(ctx, p); err != nil {
			return err
		}
	}
	e.b = append(e.b, "]}\n"...)
	e.flush(0)
	return e.err
}

func (e *speedscope) frame(f *frame) {
	e.b = jsontext.AppendSafeString(append(e.b, `{"name":`...), f.name)
	if f.file != "" {
		e.b = jsontext.AppendSafeString(append(e.b, `,"file":`...), f.file)
	}
	if f.line != 0 {
		e.b = strconv.AppendUint(append(e.b, `,"line":`...), uint64(f.line), 10)
	}
	e.b = append(e.b, '}')
}

// A profile holds the spans of a lane, in the order of their beginnings.
type profile struct {
	service string
	lane    int32
	spans   []int32
}

// profiles sorts the spans by lanes: first by service, then by number.
func (e *speedscope) profiles() []profile {
	lanes := make([][]int, len(e.services)) // how many spans each has
	for i := range e.intervals {
		l := &lanes[e.intervals[i].Group]
		for int(e.lanes[i]) >= len(*l) {
			*l = append(*l, 0)
		}
		(*l)[e.lanes[i]]++
	}
	var profiles []profile
	firsts := make([]int, len(lanes))
	all := make([]int32, len(e.intervals))
	for g, counts := range lanes {
		firsts[g] = len(profiles)
		for l, n := range counts {
			profiles = append(profiles, profile{e.services[g], int32(l), all[:0:n]})
			all = all[n:]
		}
	}
	for _, i := range e.order {
		p := &profiles[firsts[e.intervals[i].Group]+int(e.lanes[i])]
		p.spans = append(p.spans, i)
	}
	return profiles
}

func (e *speedscope) profile(ctx context.Context, p profile) error {
	name := p.service
	if p.lane > 0 {
		name += " (" + strconv.Itoa(int(p.lane)+1) + ")"
	}
	start, end := e.intervals[p.spans[0]].Start, e.intervals[p.spans[0]].End
	for _, i := range p.spans {
		end = max(end, e.intervals[i].End)
	}
	e.b = jsontext.AppendSafeString(append(e.b, `{"type":"evented","name":`...), name)
	e.b = append(e.b, `,"unit":"nanoseconds","startValue":`...)
	e.b = e.appendTime(e.b, start)
	e.b = append(e.b, `,"endValue":`...)
	e.b = e.appendTime(e.b, end)
	e.b = append(e.b, `,"events":[`...)
	open := int32(-1) // the innermost span, outers leads on
	comma := false
	for n, i := range p.spans {
		for ; open != e.outers[i]; open = e.outers[open] {
			e.event('C', open, e.intervals[open].End, true)
		}
		e.event('O', i, e.intervals[i].Start, comma)
		open, comma = i, true
		if n%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	for ; open >= 0; open = e.outers[open] {
		e.event('C', open, e.intervals[open].End, true)
	}
	e.b = append(e.b, "]}"...)
	return e.err
}

func (e *speedscope) event(kind byte, i int32, at int64, comma bool) {
	if comma {
		e.b = append(e.b, ',')
	}
	e.b = append(append(append(e.b, `{"type":"`...), kind), `","frame":`...)
	e.b = strconv.AppendInt(e.b, int64(e.frames[i]), 10)
	e.b = e.appendTime(append(e.b, `,"at":`...), at)
	e.b = append(e.b, '}')
	e.flush(bufferSize)
}

// appendTime appends t relative to the beginning of the trace. The difference of
// two int64s needs 64 bits.
func (e *speedscope) appendTime(b []byte, t int64) []byte {
	return strconv.AppendUint(b, uint64(t)-uint64(e.base), 10)
}
