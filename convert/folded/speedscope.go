package folded

import (
	"bufio"
	"context"
	"io"
	"strconv"

	"github.com/entrace-go/entrace/internal/read/timeline"
	"github.com/entrace-go/entrace/internal/text/jsontext"
	"github.com/entrace-go/entrace/view"
)

// EncodeSpeedscope writes the spans of v to w as a speedscope file. The package documentation describes it. The
// error is an error of v, w or ctx.
func EncodeSpeedscope(ctx context.Context, w io.Writer, v *view.View) error {
	e := speedscope{out: bufio.NewWriterSize(w, bufferSize)}
	frames := make(map[frame]int32)
	lanes := make(map[lane]*profile)
	known := make(map[string]int)
	err := eachSpan(ctx, v, func(m *timeline.Moment, service string) error {
		data := v.Metadata(m.Row)
		f := frame{data.Name, data.File.Value, data.Line.Value}
		n, ok := frames[f]
		if !ok {
			n = int32(len(frames))
			frames[f], e.frames = n, append(e.frames, f)
		}
		at := lane{m.Group, m.Lane}
		p := lanes[at]
		if p == nil {
			known[service]++
			if known[service] > 1 {
				service += " (" + strconv.Itoa(known[service]) + ")"
			}
			p = &profile{name: service}
			lanes[at], e.profiles = p, append(e.profiles, p)
		}
		if len(e.profiles) == 1 && len(p.events) == 0 {
			e.base = m.Time
		}
		p.events = append(p.events, event{uint64(m.Time) - uint64(e.base), n, m.Kind == timeline.Ends})
		return nil
	})
	if err != nil {
		return err
	}
	return e.write(ctx)
}

const speedscopeSchema = "https://www.speedscope.app/file-format-schema.json"

type speedscope struct {
	frames   []frame
	profiles []*profile
	base     int64 // when the first span began

	out *bufio.Writer
	b   []byte // bytes that are not yet written to out
}

// A profile holds the beginnings and ends of the spans of a lane, ordered by time.
type profile struct {
	name   string
	events []event
}

type event struct {
	at    uint64 // in nanoseconds since base
	frame int32
	ends  bool
}

// flush writes b to out. out keeps an error and returns it from its Flush.
func (e *speedscope) flush() {
	_, _ = e.out.Write(e.b)
	e.b = e.b[:0]
}

func (e *speedscope) write(ctx context.Context) error {
	e.b = append(e.b, `{"$schema":"`+speedscopeSchema+`","exporter":"entrace","shared":{"frames":[`...)
	for i := range e.frames {
		if i > 0 {
			e.b = append(e.b, ',')
		}
		e.frame(&e.frames[i])
		e.flush()
	}
	e.b = append(e.b, `]},"profiles":[`...)
	for i, p := range e.profiles {
		if i > 0 {
			e.b = append(e.b, ',')
		}
		if err := e.profile(ctx, p); err != nil {
			return err
		}
	}
	e.b = append(e.b, "]}\n"...)
	e.flush()
	return e.out.Flush()
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

func (e *speedscope) profile(ctx context.Context, p *profile) error {
	e.b = jsontext.AppendSafeString(append(e.b, `{"type":"evented","name":`...), p.name)
	e.b = strconv.AppendUint(append(e.b, `,"unit":"nanoseconds","startValue":`...), p.events[0].at, 10)
	e.b = strconv.AppendUint(append(e.b, `,"endValue":`...), p.events[len(p.events)-1].at, 10)
	e.b = append(e.b, `,"events":`...)
	comma := byte('[')
	for i, x := range p.events {
		kind := byte('O')
		if x.ends {
			kind = 'C'
		}
		e.b = append(append(append(e.b, comma), `{"type":"`...), kind)
		e.b = strconv.AppendInt(append(e.b, `","frame":`...), int64(x.frame), 10)
		e.b = append(strconv.AppendUint(append(e.b, `,"at":`...), x.at, 10), '}')
		e.flush()
		comma = ','
		if i%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	e.b = append(e.b, "]}"...)
	return nil
}
