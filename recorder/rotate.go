package recorder

import (
	"fmt"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
	"github.com/entrace-go/entrace/redact"
)

// rotateIfDue begins a new file if one is due and no entries are staged for the old file.
func (w *writer) rotateIfDue() {
	r := &w.rotation
	if w.file == nil || w.file.dead != nil || w.staged() || w.broken.Load() != nil {
		return
	}
	now := time.Now()
	unsynced := w.file.syncErr != nil && now.After(r.synced) // a failed sync cannot be repeated, except for another file
	if !r.mended && !unsynced && !r.isDue(w.o, w.placer, now) || now.Before(r.notBefore) {
		return
	}
	err := w.checkFile() // another file may have the name by now
	if err == nil {
		err = w.rotate(now)
	}
	if err != nil {
		r.notBefore = now.Add(rotateAgain)
		r.mended = r.mended && r.on(w.o) // without bounds, recording continues in this file: it is whole after the mending
		err = fmt.Errorf("rotate %s: %w", w.name, err)
		w.mu.Lock()
		w.published.err = err
		w.mu.Unlock()
		w.report(err) // recording continues in the old file
	}
}

// rotate replaces the growing file by a new one. If it fails before both files have their names, nothing
// has changed.
func (w *writer) rotate(now time.Time) error {
	removed := uint64(0) // number of entries that are not in a file with a name
	if w.file.isRemoved() {
		removed = max(w.placer.Entries(), 1) - 1 // the root needs no saving
	}
	w.unsaved.Add(removed)
	w.leaving = removed > 0
	err := w.rotateFrom(removed, now)
	if err != nil {
		w.leaving = false
		w.unsaved.Add(-removed)
	}
	return err
}

// rotateFrom does the work of rotate. The parameter removed is the number of entries in the old file if
// that file was removed, else 0.
func (w *writer) rotateFrom(removed uint64, now time.Time) error {
	lost := w.file.check() // not nil if the old file was removed or renamed
	next, err := w.successor(w.o, w.name, w.tee != nil)
	if err != nil {
		return err
	}
	if w.o.Durability == DurabilityPower && lost == nil {
		// The calls that wait for this sync get this error, or else the error of syncing the new file.
		w.unsynced = w.sink.sync()
	}
	// If the process dies just after the renames, recovery finds both files, and a checkpoint about the old one.
	// The checkpoint must name the spans that wait for their parents, because these spans go to the new file.
	aside := ""
	err = w.handOver(func() bool { return w.parking.repark(w.placer) }, func() (err error) {
		aside, err = w.exchange(next, lost == nil, now)
		return err
	})
	if err != nil {
		return next.discard(err)
	}
	// A file that was mended gets no entry of a clean end, because some of its entries are missing.
	if !w.rotation.mended {
		if err := w.writeEnd(true); err != nil {
			w.failed(err) // the old file remains a readable IET
		}
	}
	old, left := w.file, next.placer.Left()
	w.succeed(next, now)
	if lost == nil {
		w.finishOld(old, aside)
	} else {
		w.leaveOld(old, removed, now)
	}
	if left > 0 {
		w.report(fmt.Errorf("rotate %s: %d open spans are only in %s; the new file gets an open span with the next record of the span", w.name, left, aside))
	}
	if w.o.Durability == DurabilityPower {
		if err := osfile.SyncDir(w.name); err != nil {
			w.failed(fmt.Errorf("rotate %s: %w", w.name, err)) // a loss of power could restore the old names
		}
	}
	return nil
}

// succeed makes w write to next, which has the name of the growing file.
func (w *writer) succeed(next *successor, now time.Time) {
	stranger := w.rotation.mended || w.rotation.stranger || !w.rotation.on(w.o)
	failed := w.file.syncErr != nil
	next.placer.Drop = w.placer.Drop
	next.placer.Adopt(w.placer)
	w.output = next.output
	w.reader.Needs = w.placer.Needs
	w.rotation = rotation{began: now, first: w.placer.Entries(), head: w.placer.Size(), stranger: stranger}
	if failed {
		w.rotation.synced = now.Add(rotateAgain)
	}
	w.placer.Extra() // reset the count, because all entries of the new file are added here
	w.mu.Lock()
	w.published.extra[0] += w.placer.Entries()
	w.published.written[0] += w.placer.Entries()
	w.published.files++
	w.published.bytes = w.file.n
	w.mu.Unlock()
	if w.tee != nil {
		w.tee.begin(w.o.Version)
		for _, k := range next.kept {
			if err := w.tee.take(k.b, k.staged); err != nil {
				w.report(err)
			}
		}
	}
	w.checkpoint()
}

// writeEnd writes the last entry of a file. This is the entry of a clean end, or the entry of a
// recovered file if the process that made the records died.
func (w *writer) writeEnd(rotated bool) error {
	end := deadtrace.RecoveredEntry()
	if !w.died {
		end = endEntry(w.Stats(), w.placer.Entries(), w.intern.Redact)
		w.dropped.describe(end)
		if rotated {
			end.Add(mapping.AttrRotated, format.BoolValue(true))
		}
	}
	w.mu.Lock()
	w.published.extra[0]++
	w.mu.Unlock()
	if _, err := w.placer.Append(deadtrace.RecordOf(end), 0); err != nil {
		w.drop(err, 1, 0)
		return nil // drop has reported the error
	}
	err := w.flush()
	if err != nil {
		w.dropStaged(err)
	}
	return err
}

// endEntry returns the entry of a clean end. The parameter entries is the number of entries before it.
func endEntry(s Stats, entries uint64, r *redact.Redactor) *format.TraceEntry {
	d := s.Entries.Dropped
	e := &format.TraceEntry{Metadata: format.Metadata{Name: mapping.NameEnd, Level: format.LevelTrace}}
	e.Add(format.AttrTime, format.TimeValue(time.Now()))
	e.Add("entries", format.U64Value(entries))
	e.Add(mapping.AttrDropped, format.U64Value(d.Total()))
	d.Each(func(reason string, n uint64) {
		e.Add("dropped."+reason, format.U64Value(n))
	})
	r.Each(func(rule string, n uint64) {
		e.Add("redacted."+rule, format.U64Value(n))
	})
	return e
}
