package timeline

import (
	"context"
	"runtime"
	"sync"
)

const (
	aheadMoments = 128     // the number of moments in a batch
	aheadSize    = 2 << 20 // the maximum bytes of details that are read ahead for a batch; the rest is read when needed
)

// A batch holds moments, and details that are read ahead.
type batch struct {
	moments []Moment
	details []Details // the details of moments[:read]
	read    int
	err     error // the error of reading moments[read]
	done    chan struct{}
}

// Detailed calls fn for each moment, like Moments, but with the details of the moment's entry. For the end of a
// span, the details are nil. Both arguments are valid until fn returns. Several goroutines read entries ahead. The
// details in memory need at most a few megabytes, except for very large entries.
func (t *Timeline) Detailed(ctx context.Context, fn func(m *Moment, d *Details) error) error {
	workers := min(runtime.GOMAXPROCS(0), 8)
	jobs := make(chan *batch, workers+1)
	var wait sync.WaitGroup
	for range workers {
		wait.Go(func() {
			for b := range jobs {
				t.readAhead(b)
			}
		})
	}
	// If fn fails, the remaining batches are still read. This does not take long.
	defer wait.Wait()
	defer close(jobs)

	var ahead, spare []*batch
	now := newBatch()
	take := func() error {
		b := ahead[0]
		ahead = ahead[1:]
		<-b.done
		if err := t.eachMoment(b, fn); err != nil {
			return err
		}
		spare = append(spare, b)
		return nil
	}
	dispatch := func() error {
		now.done = make(chan struct{})
		jobs <- now
		ahead = append(ahead, now)
		if len(ahead) > workers {
			if err := take(); err != nil {
				return err
			}
		}
		if len(spare) == 0 {
			now = newBatch()
			return nil
		}
		now, spare = spare[len(spare)-1], spare[:len(spare)-1]
		return nil
	}
	err := t.Moments(ctx, func(m *Moment) error {
		now.moments = append(now.moments, *m)
		if len(now.moments) < aheadMoments {
			return nil
		}
		return dispatch()
	})
	if err != nil {
		return err
	}
	if err := dispatch(); err != nil {
		return err
	}
	for len(ahead) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := take(); err != nil {
			return err
		}
	}
	return nil
}

func newBatch() *batch {
	return &batch{moments: make([]Moment, 0, aheadMoments), details: make([]Details, aheadMoments)}
}

// readAhead reads details for b until their size exceeds aheadSize.
func (t *Timeline) readAhead(b *batch) {
	size := 0
	for b.read < len(b.moments) && size < aheadSize {
		if m := &b.moments[b.read]; m.Kind != Ends {
			b.err = t.Details(m.Row, &b.details[b.read])
			if b.err != nil {
				break
			}
			size += b.details[b.read].size()
		}
		b.read++
	}
	close(b.done)
}

// eachMoment calls fn for each moment of b, and then clears b for reuse.
func (t *Timeline) eachMoment(b *batch, fn func(m *Moment, d *Details) error) error {
	for i := range b.moments {
		m, d := &b.moments[i], &b.details[i]
		if m.Kind == Ends {
			d = nil
		} else if i >= b.read {
			if b.err != nil {
				return b.err
			}
			if err := t.Details(m.Row, d); err != nil {
				return err
			}
		}
		if err := fn(m, d); err != nil {
			return err
		}
		if d != nil {
			d.forget()
		}
	}
	b.moments, b.read = b.moments[:0], 0
	return nil
}

// size returns the approximate size of d in bytes.
func (d *Details) size() int {
	n := len(d.Name) + 64*len(d.Args)
	for i := range d.Args {
		n += len(d.Args[i].Name) + len(d.Args[i].Value.Text())
	}
	for i := range d.Links.List {
		n += d.Links.List[i].Size()
	}
	return n
}

// forget clears d. It keeps the memory of Args and names for reuse, unless this is large.
func (d *Details) forget() {
	if cap(d.Args) > 64 {
		*d = Details{}
	}
	clear(d.Args)
	d.names.Reset()
	*d = Details{Args: d.Args[:0], names: d.names}
}
