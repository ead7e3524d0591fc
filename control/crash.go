package control

import (
	"cmp"
	"context"
	"encoding/hex"
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
	"github.com/entrace-go/entrace/internal/crashtext"
	"github.com/entrace-go/entrace/internal/deadtrace"
	"github.com/entrace-go/entrace/internal/journal"
	"github.com/entrace-go/entrace/internal/mapping"
	"github.com/entrace-go/entrace/internal/osfile"
	"github.com/entrace-go/entrace/internal/record"
	"github.com/entrace-go/entrace/internal/ring"
	"github.com/entrace-go/entrace/internal/tracename"
	"github.com/entrace-go/entrace/internal/wire"
	"github.com/entrace-go/entrace/recorder"
)

const (
	ringPrefix = "ring-"
	ringExt    = ".ring"
	crashExt   = crashtext.Ext
	brokenExt  = ".broken"
	crashName  = "crash" // of the trace
	// A crash trace that is being written: nobody takes it for one that its writer
	// has left, since it can be made again.
	recoveryExt = ".recovery"

	// maxCrashes bounds the search for a free name of a crash trace. The first one is
	// free unless somebody else uses it.
	maxCrashes = 1000
)

// A deathNote is what a ring's file says of its process.
type deathNote struct {
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Service string `json:"service,omitempty"`
	Config  string `json:"config"`
}

func (c *Control) note(cfg *Config) []byte {
	n := deathNote{Host: thisHost(), PID: os.Getpid(), Service: cut200(c.o.Service), Config: cut200(cfg.ID)}
	b, err := json.Marshal(n)
	if err != nil || len(b) > ring.MaxNote {
		return nil // it is of no use, and the ring is
	}
	return b
}

func cut200(s string) string { return wire.Cut(s, 200) }

// A Crash is a process that died, as far as its ring tells.
type Crash struct {
	Ring    string    // the file that was found
	Path    string    // the trace that was made of it; empty if there was nothing
	Time    time.Time // of the last that was recorded
	PID     int
	Service string
	Reason  string // what the runtime wrote first, if it wrote anything
	Damaged int    // parts of the ring that could not be read
	// Err is why it was not recovered, or not all of it: what is left stays as it is. It is
	// [recorder.ErrJournalGone] if the ring was in memory that is gone, and
	// [recorder.ErrJournalElsewhere] if it is out of reach.
	Err error
}

// Recover makes traces of the rings that processes which died have left in the
// folder dir, and removes the rings; it finishes the traces that they were writing,
// whose names it returns. Those of living processes are left alone. The error is
// that of the folder; see [Crash].Err for those of single rings.
func Recover(dir string) (crashes []Crash, finished []string, err error) {
	if _, err := os.Stat(dir); err != nil {
		return nil, nil, err
	}
	d, err := openFolder(dir)
	if err != nil {
		return nil, nil, err
	}
	if crashes, err = d.recover(); err != nil {
		return crashes, nil, err
	}
	finished, err = d.sweep(&deadtrace.Options{Owner: deadtrace.Private})
	return crashes, finished, err
}

// saveDead recovers what is in the folder.
func (c *Control) saveDead(keep Keep) {
	crashes, err := c.dir.recover()
	c.report(err)
	for i := range crashes {
		if err := crashes[i].Err; err != nil && !errors.Is(err, recorder.ErrJournalElsewhere) { // it may live
			c.report(fmt.Errorf("recover: %w", err))
		}
	}
	saved, err := c.dir.sweep(&deadtrace.Options{Owner: deadtrace.Private, AtStart: true, Report: c.report})
	c.report(err)
	for i := range crashes {
		if crashes[i].Path != "" {
			saved = append(saved, filepath.Base(crashes[i].Path))
			if c.o.OnCrash != nil {
				c.told.offer(func() { c.o.OnCrash(&crashes[i]) })
			}
		}
	}
	for _, name := range saved {
		c.dir.ended.Add(name)
	}
	_, err = c.dir.trim(keep, time.Now(), saved...)
	c.report(err)
}

func (f *folder) recover() ([]Crash, error) {
	var rings, texts []string
	err := f.each(func(e fs.DirEntry) {
		switch name := e.Name(); {
		case !strings.HasPrefix(name, ringPrefix):
		case strings.HasSuffix(name, ringExt):
			rings = append(rings, name)
		case strings.HasSuffix(name, crashExt):
			texts = append(texts, name)
		}
	})
	slices.Sort(rings)
	var out []Crash
	for _, name := range rings {
		c := Crash{Ring: f.path(name)}
		c.Err = f.recoverRing(&c)
		if errors.Is(c.Err, format.ErrLocked) || errors.Is(c.Err, fs.ErrNotExist) {
			continue // it lives, or somebody else was faster
		}
		if _, ok := errors.AsType[*journal.LayoutError](c.Err); ok {
			c.Err = f.setAside(c.Ring, c.Err)
		}
		out = append(out, c)
	}
	for _, name := range texts {
		// Of a ring that is gone: that of a living one is there.
		if _, serr := os.Lstat(f.path(strings.TrimSuffix(name, crashExt) + ringExt)); errors.Is(serr, fs.ErrNotExist) {
			_ = os.Remove(f.path(name)) // the next one tries again
		}
	}
	return out, err
}

// setAside gives the ring another name that this program cannot read because of err, so
// that it is told of once.
func (f *folder) setAside(name string, err error) error {
	to := name + brokenExt
	d, rerr := journal.OpenDead(name, true)
	if rerr == nil {
		rerr = errors.Join(d.Rename(to), d.Close())
	}
	if rerr != nil {
		return errors.Join(err, rerr)
	}
	return fmt.Errorf("it is %s now: %w", filepath.Base(to), err)
}

// recoverRing makes a trace of a ring.
func (f *folder) recoverRing(c *Crash) error {
	d, err := ring.Open(c.Ring)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	var note deathNote
	_ = json.Unmarshal(d.Note, &note) // what is not there is not told
	c.PID, c.Service, c.Time, c.Damaged = note.PID, note.Service, d.Last, d.Damaged
	textName := strings.TrimSuffix(c.Ring, ringExt) + crashExt
	text, written, err := crashtext.Read(textName)
	if err != nil {
		return fmt.Errorf("ring %s: what the runtime wrote: %w", c.Ring, err)
	}
	c.Reason = crashtext.Reason(text)
	if d.Last.IsZero() && text == "" {
		if d.Damaged > 0 {
			return fmt.Errorf("ring %s: nothing in it can be read, %d parts are damaged: it is left as it is", c.Ring, d.Damaged)
		}
		// It died before there was anything, or all of it is gone.
		return errors.Join(d.Gone, d.Remove(), osfile.Ignore(os.Remove(textName), fs.ErrNotExist))
	}
	if c.Time.IsZero() {
		if c.Time = d.Began; d.Gone != nil {
			c.Time = written
		}
	}
	// The name is always the same, so that a recovery that was killed is done again.
	name := traceName{time: c.Time.UTC().Truncate(time.Microsecond), host: fileHost(note.Host), pid: uint32(max(note.PID, 0)), seq: 1, config: crashName}
	if name.time.Year() > 9999 || name.time.Year() < 0 {
		name.time = time.Unix(0, 0).UTC() // a clock that was wrong
	}
	base := strings.TrimSuffix(c.Ring, ringExt) + recoveryExt
	err = removeTrace(base) // left by a recovery that was killed
	if err == nil {
		err = writeCrash(base, c, d, &note, text)
	}
	if err == nil {
		c.Path, err = f.publish(base+fileExt, name)
	}
	if err = errors.Join(err, removeTrace(base)); err != nil {
		return err
	}
	return errors.Join(d.Gone, d.Remove(), osfile.Ignore(os.Remove(textName), fs.ErrNotExist))
}

// removeTrace removes base.iet and base.et.
func removeTrace(base string) error {
	var err error
	for _, ext := range []string{tracename.IET, fileExt} {
		err = errors.Join(err, osfile.Ignore(os.Remove(base+ext), fs.ErrNotExist))
	}
	return err
}

// publish renames the trace from to its final name, syncs the folder and returns the
// path. If a file of that name has the same entries, an earlier recovery made it and was
// killed. If something else has the name, the trace gets the next number.
func (f *folder) publish(from string, name traceName) (string, error) {
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
func writeCrash(base string, c *Crash, d *ring.Dead, note *deathNote, text string) error {
	sn := d.Snapshot(ring.SnapshotOptions{Providers: record.Providers(^Set(0))})
	rec, err := sn.Create(base+fileExt, &recorder.Options{Durability: recorder.DurabilityWriteThrough})
	if err != nil {
		return err
	}
	e := &format.TraceEntry{Metadata: format.Metadata{Name: NameTrace, Target: target, Level: format.LevelError}}
	add := func(name string, v format.Value) {
		e.Attributes = append(e.Attributes, format.Attribute{Name: name, Value: v})
	}
	add("trigger", format.StringValue(crashName))
	add("reason", format.StringValue(cut(crashReason(c.Reason))))
	add("config.id", format.StringValue(note.Config))
	add("config.name", format.StringValue(crashName))
	add(mapping.AttrProcessID, format.U64Value(uint64(max(note.PID, 0))))
	add(mapping.AttrHostName, format.StringValue(note.Host))
	if note.Service != "" {
		add("service.name", format.StringValue(note.Service))
	}
	add("process.started_unix_nano", format.TimeValue(d.Began))
	add("window.got_nano", format.U64Value(uint64(max(0, d.Last.Sub(d.First)))))
	if d.Gone != nil {
		add("journal", format.StringValue(d.Gone.Error()))
	}
	if d.Damaged > 0 {
		add("damaged", format.U64Value(uint64(d.Damaged)))
	}
	add(format.AttrTime, format.TimeValue(c.Time))
	_, err = rec.AppendAnchor(e)
	if err == nil {
		err = sn.Copy(rec)
	}
	if err == nil && text != "" {
		err = child(rec, &format.TraceEntry{
			Message:  format.Some(text),
			Metadata: format.Metadata{Name: NameCrash, Target: target, Level: format.LevelError},
		}, c.Time)
		if err == nil {
			err = failSpan(rec, c, text)
		}
	}
	if err != nil {
		_ = rec.Close(dead)
		return err
	}
	err = rec.Close(context.Background())
	if lost := rec.Stats().Entries.Dropped; outcome(rec, err) == Started && lost.IO+lost.Full == 0 {
		return nil // an entry that is too large would be dropped again
	}
	return cmp.Or(err, errors.New("the disk did not take all of it"))
}

// failSpan writes an exception to the span whose work the goroutine did that ended the process, if
// the text names it and it is open.
func failSpan(rec *recorder.Recorder, c *Crash, text string) error {
	trace, span := crashtext.Span(text)
	if trace == "" {
		return nil
	}
	var ref format.SpanRef
	for _, id := range []struct {
		to   []byte
		text string
	}{{ref.TraceID[:], trace}, {ref.SpanID[:], span}} {
		if _, err := hex.Decode(id.to, []byte(id.text)); err != nil {
			return err
		}
	}
	open, err := ring.IsOpen(rec, ref)
	if err != nil || !open {
		return err
	}
	return write(rec, childProvider, ref, c.Time, &format.TraceEntry{
		Metadata: format.Metadata{Name: mapping.NameException, Level: format.LevelError},
		Attributes: []format.Attribute{
			{Name: format.AttrTime, Value: format.TimeValue(c.Time)},
			{Name: mapping.AttrEvent, Value: format.BoolValue(true)},
			{Name: "exception.message", Value: format.StringValue(cut(c.Reason))},
		},
	})
}

func crashReason(first string) string {
	if first == "" {
		return "the process ended without a word: it was killed, or called os.Exit"
	}
	return first
}
