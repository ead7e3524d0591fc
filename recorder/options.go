package recorder

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/redact"
)

// A Durability says which failures a record survives. The guarantee holds as soon as the
// call that passed the record to a [Recorder] has returned.
type Durability uint8

const (
	// DurabilityProcess means that records survive the death of the process, even kill -9.
	// Records go to a journal, and from there to the file within a tenth of a second. See
	// [Options].BufferDir for the place of the journal. If the journal cannot be made, the
	// recorder uses DurabilityWriteThrough.
	DurabilityProcess Durability = iota
	// DurabilityWriteThrough also means that records survive the death of the process, but it needs no
	// journal file: a call waits until its record is in the trace file, at most for MaxBlock. A span that
	// waits for its parent is only in memory, and is lost with the process.
	DurabilityWriteThrough
	// DurabilityPower means that records also survive a loss of power. A call waits for an fsync; calls
	// that wait at the same time share one.
	DurabilityPower
	// DurabilityNone means that nothing survives. [Recorder.Durability] returns it, for example if there is
	// no file. It cannot be chosen in [Options].
	DurabilityNone
)

var durabilityNames = [...]string{"process", "writethrough", "power", "none"}

// String returns the name of d.
func (d Durability) String() string {
	if d <= DurabilityNone {
		return durabilityNames[d]
	}
	return fmt.Sprintf("Durability(%d)", uint8(d))
}

// ParseDurability returns the Durability with the name s: process, writethrough or power.
func ParseDurability(s string) (Durability, error) {
	for d, name := range durabilityNames[:DurabilityNone] {
		if strings.EqualFold(s, name) {
			return Durability(d), nil
		}
	}
	return 0, fmt.Errorf("unknown durability %q: must be process, writethrough or power", s)
}

// Options change how a [Recorder] works. The zero value means defaults.
type Options struct {
	// Version is the disk version of the file. The default is [format.DefaultVersion].
	Version format.Version
	// Format is the format of the file that Close leaves. By default the name
	// decides: IET for x.iet, else ET.
	Format format.Optional[format.StorageFormat]
	// Durability says which failures records survive. The default is [DurabilityProcess].
	Durability Durability
	// BufferDir is the folder of the journal of [DurabilityProcess]. By default the journal is in /dev/shm
	// if the process is not in a container and /dev/shm has room, else in the folder of the trace.
	// Recording is fastest in a memory-backed folder, but the journal is lost when the machine or the
	// container stops.
	BufferDir string
	// MaxEntrySize is the size in bytes above which an entry is cut and marked
	// with "!TRUNCATED". The default and maximum is [format.DefaultMaxEntrySize],
	// 64 MiB; the minimum is 2 KiB.
	MaxEntrySize int

	// MaxWaitingSpans, MaxWaitingBytes and MaxWaitingAge bound the records that wait in memory: spans that
	// arrived before their parents, and received log records of these spans. If the wait reaches a bound,
	// the oldest span is written below its resource, with its parent_span_id. A span that is larger than
	// 64 KiB with its links and events does not wait. The defaults are 16,384 spans, 64 MiB and one minute.
	MaxWaitingSpans int
	MaxWaitingBytes int
	MaxWaitingAge   time.Duration

	// MaxFileSize in bytes, MaxFileAge and MaxFileEntries, if not zero, are bounds of a file. When the
	// growing file reaches a bound, the recorder begins a new file. It finishes the old file under a name
	// with a time, such as app.20261120T212712.021Z.et, as if Close had been called. Open spans continue in
	// the new file: they are written again and marked with "entrace.continued". Open spans fill at most a
	// quarter of a file, and the youngest spans have priority. If a span does not fit, the recorder calls
	// OnError, and writes the span again, with its ids, name and start, before the next record of the span,
	// such as its end.
	MaxFileSize    int64
	MaxFileAge     time.Duration
	MaxFileEntries uint32
	// KeepFiles and KeepBytes, if not zero, limit the number and the total size in bytes of the finished
	// files of this path, which have a time in their names. When a new file begins, the oldest finished
	// files are removed. The file that Close leaves does not count. A file with a time more than five
	// minutes in the future counts as the oldest, because the clock was wrong when the file was made.
	KeepFiles int
	KeepBytes int64
	// Family, if set, reports whether a file in the folder belongs to the same family as this
	// path, for example a file of the same service with another process id. Its argument is
	// the file's name without the time of a renamed file and without the extension. Files of
	// the family count for KeepFiles and KeepBytes. If the writer of such a file died, the
	// file is finished in the background.
	Family func(base string) bool

	// Shared makes Create return the Recorder that this process already has for the path, if any. The other
	// options then have no effect. The Recorder closes when Close has been called as often as Create.
	Shared bool

	// Redact says which values are secrets. The recorder replaces them before any part of a record
	// reaches the journal, the file or the Tee. nil means [redact.Default]; [redact.Off] replaces
	// nothing. The texts that the Go runtime writes about a crash do not pass through a Recorder: they
	// are redacted when they become entries, see docs/redaction.md.
	Redact *redact.Policy

	// Tee, if set, also receives every entry that is written to the file.
	Tee Tee

	// MaxBlock is how long a call waits when the disk cannot keep up. After that the
	// record is dropped and counted as [Dropped].Overflow. The default is one second.
	MaxBlock time.Duration
	// OnError, if set, is called when recording begins to fail, and not again until recording has worked in
	// between. It is also called for single events, for example if a new file has no room for all open
	// spans. No lock is held during the call. OnError must not block for long.
	OnError func(error)
	// OnNotice, if set, is called when other files were changed: a file of a dead process
	// was finished, or old files were removed. No lock is held during the call. OnNotice must
	// not block for long.
	OnNotice func(text string)
}

const (
	defaultWaitingSpans = 16384
	defaultWaitingBytes = 64 << 20
	defaultWaitingAge   = time.Minute
	defaultBlock        = time.Second
)

// withDefaults returns a copy of o with defaults for the options that are not set.
func (o Options) withDefaults() Options {
	if o.Version == 0 {
		o.Version = format.DefaultVersion
	}
	if o.MaxEntrySize <= 0 || o.MaxEntrySize > format.DefaultMaxEntrySize {
		o.MaxEntrySize = format.DefaultMaxEntrySize
	}
	o.MaxEntrySize = max(o.MaxEntrySize, minMaxEntrySize)
	if o.MaxWaitingSpans <= 0 {
		o.MaxWaitingSpans = defaultWaitingSpans
	}
	if o.MaxWaitingBytes <= 0 {
		o.MaxWaitingBytes = defaultWaitingBytes
	}
	if o.MaxWaitingAge <= 0 {
		o.MaxWaitingAge = defaultWaitingAge
	}
	if o.MaxBlock <= 0 {
		o.MaxBlock = defaultBlock
	}
	return o
}

// minMaxEntrySize is the minimum of MaxEntrySize in bytes. An entry of this size has room for the
// attributes that identify a span and its parent.
const minMaxEntrySize = 2 << 10

// check returns an error if an option is invalid.
func (o *Options) check() error {
	switch {
	case o.Version != 0 && o.Version.Check() != nil:
		return o.Version.Check()
	case o.Format.Valid && o.Format.Value > format.IET:
		return fmt.Errorf("a recorder writes et or iet, not %v", o.Format.Value)
	case o.Durability >= DurabilityNone:
		return fmt.Errorf("the option Durability must not be %v", o.Durability)
	case o.MaxFileSize < 0 || o.MaxFileAge < 0 || o.KeepFiles < 0 || o.KeepBytes < 0:
		return errors.New("MaxFileSize, MaxFileAge, KeepFiles and KeepBytes must not be negative")
	}
	return nil
}
