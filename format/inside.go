package format

import (
	"context"
	"os"

	"github.com/entrace-go/entrace/internal/inside"
	"github.com/entrace-go/entrace/internal/journal"
	"github.com/entrace-go/entrace/internal/mapfile"
	"github.com/entrace-go/entrace/internal/placer"
	"github.com/entrace-go/entrace/internal/record"
)

// What the packages of this module may do, and nobody else.
func init() {
	inside.NewRecorder = func(t any, in *record.Interner, version uint8, maxText int) any {
		r := newRecorder(t.(target), in, Version(version), maxText)
		r.ring = true
		return r
	}
	inside.Create = func(name string, options any, in *record.Interner, died bool) (any, error) {
		return createWith(name, options.(*RecorderOptions), in, died)
	}
	inside.Put = func(r any, rec *journal.Record, hint *journal.Hint) error {
		return r.(*Recorder).target.Put(rec, hint, nil)
	}
	inside.WithFile = func(r any, fn func(inside.Import) error) error { return r.(*Recorder).withFile(fn) }
	inside.SetProviders = func(r any, p record.Providers) { r.(*Recorder).on.Store(uint64(p)) }
	inside.SetProvider = func(batch any, p record.Provider) {
		b := batch.(*Batch)
		b.provider, b.silent = p, true
	}
	inside.OpenFile = func(f *os.File, name string) (any, error) {
		m, err := mapfile.New(f)
		if err != nil {
			return nil, err
		}
		return (&source{File: m, name: name, stored: m.Size()}).open(nil)
	}
	inside.EntriesOf = func(f any) inside.Entries { return entries{f.(*File)} }
	inside.AppendAnchor = func(r, e any) (uint32, error) { return r.(*Recorder).append(e.(*TraceEntry), true) }
}

// withFile runs fn on the goroutine that writes the file.
func (r *Recorder) withFile(fn func(inside.Import) error) error {
	t, ok := r.target.(*recording)
	if !ok {
		return nil
	}
	return t.ask(context.Background(), func(w *writer) error {
		if err := w.write(); err != nil && w.file != nil && w.file.dead != nil {
			return err
		}
		err := fn(&importer{w: w})
		w.checkpoint()
		w.publish(err)
		return err
	})
}

// An importer is an inside.Import.
type importer struct {
	w   *writer
	err error
}

func (i *importer) Placer() *placer.Placer { return i.w.placer }
func (i *importer) Err() error             { return i.err }

func (i *importer) Place(e *journal.Entry) {
	i.w.mu.Lock()
	i.w.published.extra[0] += uint64(e.Info.Entries())
	i.w.published.extra[1] += uint64(e.Info.Spans())
	i.w.mu.Unlock()
	i.w.placer.Place(e)
}

func (i *importer) Flush(now bool) {
	b, _ := i.w.placer.Out()
	if i.err != nil || len(b) < flushSize && (!now || len(b) == 0) {
		return
	}
	if err := i.w.flush(); err != nil {
		_, staged := i.w.placer.Out()
		spans := 0
		for k := range staged {
			if staged[k].IsSpan {
				spans++
			}
		}
		n := len(staged)
		i.w.placer.DropStaged()
		i.w.drop(err, n, spans)
		if i.w.file != nil {
			i.err = i.w.file.dead
		}
	}
}
