package traces

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/file/crashtext"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/tracename"
	"github.com/entrace-go/entrace/internal/text"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
	"github.com/entrace-go/entrace/internal/write/inside"
	"github.com/entrace-go/entrace/internal/write/ring"
	"github.com/entrace-go/entrace/recorder"
)

const (
	ringPrefix = "ring-"
	ringExt    = ".ring"
	// recoveryExt is the extension of a crash trace while it is written. If its writer dies, the file is not
	// finished, because it can be made from the ring again.
	recoveryExt = ".recovery"

	// crashName is the name of the trace of a dead process's ring. Other traces have a name from a configuration.
	crashName = "crash"

	// maxCrashes is the number of names that are tried for a crash trace. Usually the first name is free.
	maxCrashes = 1000
)

// NewRing returns the path of the ring of this process, which began at the given time, and the path of the
// file for the crash text of the runtime.
func (f *Folder) NewRing(at time.Time) (ring, crash string) {
	ring = f.path(fmt.Sprintf("%s%s-%d-%s%s", ringPrefix, Host(), os.Getpid(), at.UTC().Format(fileTime), ringExt))
	return ring, crashText(ring)
}

// crashText returns the path of the file for the crash text of the runtime, next to the ring.
func crashText(ring string) string { return strings.TrimSuffix(ring, ringExt) + crashtext.Ext }

// Note returns the note for the ring of this process, with the service and the id of the
// configuration.
func Note(service, config string) []byte {
	n := note{Host: Host(), PID: os.Getpid(), Service: text.Cut(service, maxNote), Config: text.Cut(config, maxNote)}
	b, err := json.Marshal(n)
	if err != nil || len(b) > ring.MaxNote {
		return nil // a ring without a note is still useful
	}
	return b
}

// maxNote is the maximum size in bytes of each text of a note.
const maxNote = 200

// A note describes the process of a ring.
type note struct {
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Service string `json:"service,omitempty"`
	Config  string `json:"config"`
}

// setAside renames a ring that cannot be read because of err, so that the ring is reported only once.
func (f *Folder) setAside(name string, err error) error {
	to := name + tracename.Broken
	d, rerr := journal.OpenDead(name, true)
	if rerr == nil {
		rerr = errors.Join(d.Rename(to), d.Close())
	}
	if rerr != nil {
		return errors.Join(err, rerr)
	}
	return fmt.Errorf("%w; the file was renamed to %s", err, filepath.Base(to))
}

// recoverRing converts the ring c.Name to a trace.
func (f *Folder) recoverRing(c *Result) error {
	d, err := ring.Open(c.Name)
	if err != nil {
		return err
	}
	defer d.Close()
	var n note
	_ = json.Unmarshal(d.Note, &n) // an unreadable note leaves the fields empty
	c.PID, c.Service, c.Time, c.Damaged = n.PID, n.Service, d.Last, d.Damaged
	textName := crashText(c.Name)
	text, written, err := crashtext.Read(textName)
	if err != nil {
		return fmt.Errorf("ring %s: read the text of the panic: %w", c.Name, err)
	}
	c.Reason = crashtext.Reason(text)
	if d.Last.IsZero() && text == "" {
		if d.Damaged > 0 {
			return fmt.Errorf("ring %s has no readable records and %d damaged parts: the file stays unchanged", c.Name, d.Damaged)
		}
		// The process died before it recorded anything, or the ring is gone.
		return errors.Join(d.Gone, d.Remove(), osfile.Ignore(os.Remove(textName), fs.ErrNotExist))
	}
	if c.Time.IsZero() {
		c.Time = d.Began
		if d.Gone != nil {
			c.Time = written
		}
	}
	// The name depends only on the ring: a recovery that is repeated after a kill makes the same name.
	name := traceName{time: c.Time.UTC().Truncate(time.Microsecond), host: fileHost(n.Host), pid: uint32(max(n.PID, 0)), seq: 1, config: crashName}
	if name.time.Year() > 9999 || name.time.Year() < 0 {
		name.time = time.Unix(0, 0).UTC() // the clock was wrong
	}
	base := strings.TrimSuffix(c.Name, ringExt) + recoveryExt
	err = removeTrace(base) // a killed recovery may have left the files
	if err == nil {
		err = writeCrash(base, c, d, &n, text)
	}
	var path string
	if err == nil {
		path, err = f.publish(base+tracename.ET, name)
	}
	err = errors.Join(err, removeTrace(base))
	if err != nil {
		return err
	}
	made, err := recorder.Inspect(path)
	if made != nil {
		made.Name = c.Name
		c.Report = *made
	}
	c.Output = path
	if d.Damaged > 0 {
		c.Journal = fmt.Errorf("%d parts of the ring could not be read", d.Damaged)
	}
	return errors.Join(err, d.Gone, d.Remove(), osfile.Ignore(os.Remove(textName), fs.ErrNotExist))
}

// removeTrace removes base.iet and base.et.
func removeTrace(base string) error {
	var err error
	for _, ext := range []string{tracename.IET, tracename.ET} {
		err = errors.Join(err, osfile.Ignore(os.Remove(base+ext), fs.ErrNotExist))
	}
	return err
}

// publish renames the trace at the path from to its final name, syncs the folder and returns the path. If a
// file with the same bytes has this name, an earlier recovery has made it and was killed. If a file with
// other bytes has this name, the trace gets the next number.
func (f *Folder) publish(from string, name traceName) (string, error) {
	for ; ; name.seq++ {
		to := f.path(name.String())
		err := osfile.RenameNew(from, to)
		if errors.Is(err, fs.ErrExist) {
			if deadtrace.SameBytes(from, to) {
				err = nil
			} else if name.seq < maxCrashes {
				continue
			}
		}
		if err == nil {
			err = osfile.SyncDir(to)
		}
		if err != nil {
			return "", err
		}
		return to, nil
	}
}

// writeCrash writes base.et from a ring.
func writeCrash(base string, c *Result, d *ring.Dead, n *note, text string) error {
	sn := d.Snapshot(ring.SnapshotOptions{Providers: ^record.Providers(0)})
	rec, err := sn.Create(base+tracename.ET, &recorder.Options{Durability: recorder.DurabilityWriteThrough})
	if err != nil {
		return err
	}
	e := &format.TraceEntry{Metadata: format.Metadata{Name: mapping.NameTrace, Target: target, Level: format.LevelError}}
	e.Add("trigger", format.StringValue(crashName))
	e.Add("reason", format.StringValue(cutText(cmp.Or(c.Reason, "the process ended without a message: it was killed, or called os.Exit"))))
	e.Add("config.id", format.StringValue(n.Config))
	e.Add("config.name", format.StringValue(crashName))
	e.Add(mapping.AttrProcessID, format.U64Value(uint64(max(n.PID, 0))))
	e.Add(mapping.AttrHostName, format.StringValue(n.Host))
	if n.Service != "" {
		e.Add("service.name", format.StringValue(n.Service))
	}
	e.Add("process.started_unix_nano", format.TimeValue(d.Began))
	e.Add("window.got_nano", format.U64Value(uint64(max(0, d.Last.Sub(d.First)))))
	if d.Gone != nil {
		e.Add("journal", format.StringValue(d.Gone.Error()))
	}
	if d.Damaged > 0 {
		e.Add("damaged", format.U64Value(uint64(d.Damaged)))
	}
	e.Add(format.AttrTime, format.TimeValue(c.Time))
	_, err = inside.Of(rec).AppendAnchor(e)
	if err == nil {
		err = sn.Copy(rec)
	}
	if err == nil && text != "" {
		err = WriteTimed(rec, Own, format.SpanRef{}, c.Time, &format.TraceEntry{
			Message: format.Some(text), Metadata: format.Metadata{Name: mapping.NameCrash, Target: target, Level: format.LevelError},
		})
		if err == nil {
			err = failSpan(rec, c, text)
		}
		if err == nil {
			err = writeStacks(rec, c, text)
		}
	}
	if err != nil {
		_ = rec.Close(Ended) // because the context has ended, Close leaves the IET
		return err
	}
	err = rec.Close(context.Background())
	if lost := rec.Stats().Entries.Dropped; IsFinished(rec, err) && lost.IO+lost.Full == 0 {
		return nil // other drops do not count: a repeated recovery would drop an entry that is too large again
	}
	return cmp.Or(err, errors.New("a part of the trace could not be written to the disk"))
}

// failSpan adds an exception event to the span of the goroutine that ended the process, if text names the
// span and the span is open.
func failSpan(rec *recorder.Recorder, c *Result, text string) error {
	trace, span := crashtext.Span(text)
	if trace == "" {
		return nil
	}
	ref := refOf(trace, span)
	open, err := ring.IsOpen(rec, ref)
	if err != nil || !open {
		return err
	}
	return WriteTimed(rec, Own, ref, c.Time, &format.TraceEntry{
		Metadata: format.Metadata{Name: mapping.NameException, Level: format.LevelError},
		Attributes: []format.Attribute{
			{Name: mapping.AttrEvent, Value: format.BoolValue(true)},
			{Name: "exception.message", Value: format.StringValue(cutText(c.Reason))},
		},
	})
}

// refOf returns the span with the ids trace and span, which come from package crashtext and are valid.
func refOf(trace, span string) (ref format.SpanRef) {
	ref.TraceID, _ = wire.ParseID[[16]byte](trace)
	ref.SpanID, _ = wire.ParseID[[8]byte](span)
	return ref
}

// writeStacks writes an entry for each stack of goroutines that worked for a span when the process died, below this
// span. The entries are like the entries of the provider goroutines.
func writeStacks(rec *recorder.Recorder, c *Result, text string) error {
	for _, s := range crashtext.Stacks(text) {
		err := WriteTimed(rec, Own, refOf(s.Trace, s.Span), c.Time, &format.TraceEntry{
			Message:  format.Some(cutText(s.Function)),
			Metadata: format.Metadata{Name: "goroutines", Target: "runtime/pprof", Level: format.LevelDebug},
			Attributes: []format.Attribute{
				{Name: "count", Value: format.U64Value(uint64(s.Count))},
				{Name: "stack", Value: format.StringValue(s.Lines)},
			},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Write records an entry of a provider to the recorder of a trace.
func Write(rec *recorder.Recorder, p record.Provider, ref format.SpanRef, at time.Time, e *format.TraceEntry) error {
	b := rec.Batch()
	b.Log(ref, at.UnixNano())
	inside.OfBatch(b).SetProvider(p)
	b.Entry(e)
	return b.Write()
}

// WriteTimed is like Write, but also adds the attribute time_unix_nano before the attributes of e.
func WriteTimed(rec *recorder.Recorder, p record.Provider, ref format.SpanRef, at time.Time, e *format.TraceEntry) error {
	own := *e
	own.Attributes = slices.Concat([]format.Attribute{{Name: format.AttrTime, Value: format.TimeValue(at)}}, e.Attributes)
	return Write(rec, p, ref, at, &own)
}

// Own is the provider of the control's own entries in a trace. It differs from the providers spans and logs, so that
// these entries go only to the recorder of the trace.
const Own = record.MaxProviders - 1

// target is the target of the control's own entries in a trace. It is stored in traces.
const target = "github.com/entrace-go/entrace/control"

// cutText cuts a text to the maximum size in the first entry.
func cutText(s string) string { return text.Cut(s, 4<<10) }

// Ended is a canceled context.
var Ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// IsFinished reports whether the ET of rec exists. The parameter err is the result of rec.Close.
func IsFinished(rec *recorder.Recorder, err error) bool {
	f, failed := errors.AsType[*format.FinalizeError](err)
	return err == nil || failed && f.Finished || !failed && osfile.Exists(rec.Path())
}
