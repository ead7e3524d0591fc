package measureme

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// WriterOptions describe the process that a [Writer] profiles.
type WriterOptions struct {
	// Start is when the profile begins. The default is now.
	Start time.Time
	// ProcessID is that of the process. The default is os.Getpid.
	ProcessID uint32
	// Command is shown by the tools. They take what is behind " --crate-name "
	// for the name of the process. The default are the arguments of the process.
	Command string
}

// A Writer writes a profile while the program runs: each goroutine takes a
// [Thread] with a page of its own, and gives that page its place in the file by
// one atomic addition when it is full. No lock is taken for an event; strings,
// which are few, share one table.
//
// What a string id stands for is in the file before the page with the event is,
// and the file begins with its metadata. So of a program that dies all pages that
// were full can be read; a page that got a place and was not written any more is
// a hole of zero bytes, which [Decode] passes over and other readers refuse.
//
// A Writer is safe for concurrent use.
type Writer struct {
	w     io.WriterAt
	start time.Time
	pos   atomic.Int64
	err   atomic.Pointer[error]

	mu      sync.Mutex // guards strings, id, threads and closed
	strings *writeTable
	id      eventID
	threads map[*Thread]struct{}
	closed  bool

	dirty atomic.Bool // there are strings that are not in the file yet
}

// ErrClosed is returned by a [Writer] that was closed before.
var ErrClosed = errors.New("measureme: closed")

// NewWriter returns a Writer to w, which must be empty, such as an *os.File that
// is not opened for appending. Other tools want the extension .mm_profdata. A nil
// o means defaults. Call Close at the end, which does not close w.
func NewWriter(w io.WriterAt, o *WriterOptions) (*Writer, error) {
	if o == nil {
		o = &WriterOptions{}
	}
	m := metadata{processID: o.ProcessID, command: o.Command}
	t := &Writer{w: w, start: o.Start, threads: make(map[*Thread]struct{})}
	if t.start.IsZero() {
		t.start = time.Now()
	}
	m.start = uint64(min(max(t.start.UnixNano(), 0), maxStart))
	if m.processID == 0 {
		m.processID = uint32(os.Getpid())
	}
	if m.command == "" {
		for _, arg := range os.Args {
			m.command += arg + " "
		}
	}
	text := appendMetadata(nil, &m, nil)
	b := appendStart(nil, text)
	if _, err := w.WriteAt(b, 0); err != nil {
		return nil, err
	}
	t.pos.Store(int64(len(b)))
	t.strings = newWriteTable(func(payload []byte) error {
		return t.write(appendPageHeader(make([]byte, 0, pageHeaderSize+len(payload)), tagStrings, len(payload)), payload)
	})
	t.strings.next += uint64(len(text)) + 1
	return t, nil
}

// appendStart appends a whole file without events: its header, and a page of each
// kind with the header of the stream. The only string is the metadata.
func appendStart(b, metadata []byte) []byte {
	b = appendHeader(b, magicFile)
	b = appendHeader(appendPageHeader(b, tagEvents, headerSize), magicEvents)
	b = appendHeader(appendPageHeader(b, tagStrings, headerSize+len(metadata)+1), magicStrings)
	b = append(append(b, metadata...), terminator)
	b = appendHeader(appendPageHeader(b, tagIndex, headerSize+indexSize), magicIndex)
	return append(b, metadataID&0xff, metadataID>>8&0xff, metadataID>>16&0xff, metadataID>>24, 0, 0, 0, 0,
		metadataOffset, 0, 0, 0, 0, 0, 0, 0)
}

// write gives header and payload together a place in the file.
func (w *Writer) write(page, payload []byte) error {
	page = append(page, payload...)
	_, err := w.w.WriteAt(page, w.pos.Add(int64(len(page)))-int64(len(page)))
	if err != nil {
		w.err.CompareAndSwap(nil, &err)
	}
	return err
}

// Err returns the first error of writing, if there was any.
func (w *Writer) Err() error {
	if err := w.err.Load(); err != nil {
		return *err
	}
	return nil
}

// Start returns when the profile began: time 0 of its events.
func (w *Writer) Start() time.Time { return w.start }

// String returns the id of a text, the same for the same text. A text that is
// not UTF-8, or has control characters, is changed; an empty one is "<unnamed>".
// Take the ids of what comes often once.
func (w *Writer) String(text string) StringID {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dirty.Store(true)
	return w.strings.text(text)
}

// EventID returns the id of a label with arguments, likewise.
func (w *Writer) EventID(label string, args ...string) StringID {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dirty.Store(true)
	w.id.begin(w.strings, label)
	for _, arg := range args {
		w.strings.scratch = appendText(w.strings.scratch[:0], arg)
		w.id.arg(w.strings.scratch, true)
	}
	return w.id.end()
}

// flushStrings brings to the file what events may refer to.
func (w *Writer) flushStrings() error {
	if !w.dirty.Load() {
		return w.Err()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.strings.flush()
	w.dirty.Store(false)
	return w.strings.err
}

// Thread returns a thread of that number to write events to. Events of one number
// must come from one Thread, in the order in which they end.
func (w *Writer) Thread(id uint32) *Thread {
	t := &Thread{w: w, id: id}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.threads[t] = struct{}{}
	}
	return t
}

// Flush writes all strings. The pages of threads stay theirs.
func (w *Writer) Flush() error { return w.flushStrings() }

// Close writes what all threads still have, which must not be in use any more. A
// second Close returns [ErrClosed].
func (w *Writer) Close() error {
	w.mu.Lock()
	threads := w.threads
	w.threads = nil
	closed := w.closed
	w.closed = true
	w.mu.Unlock()
	if closed {
		return ErrClosed
	}
	err := w.flushStrings()
	for t := range threads {
		err = errors.Join(err, t.Flush())
	}
	if err == nil {
		err = w.Err()
	}
	return err
}

// A Thread writes the events of one thread, or of what else has its own line in
// time, such as a goroutine. Times count from the start of the [Writer]; one that
// the format cannot hold, as it is negative or over 78 hours, is the nearest that
// it can.
//
// A Thread is not safe for concurrent use.
type Thread struct {
	w    *Writer
	id   uint32
	page []byte
}

// Interval writes an event that took some time. Write it when it ends, so that
// it comes behind what it contains.
func (t *Thread) Interval(kind, id StringID, start, end time.Duration) {
	first := uint64(min(max(start, 0), maxEnd))
	t.write(kind, id, first, max(first, uint64(min(max(end, 0), maxEnd))))
}

// Instant writes an event at a point in time.
func (t *Thread) Instant(kind, id StringID, at time.Duration) {
	t.write(kind, id, uint64(min(max(at, 0), maxNano)), markInstant)
}

// Integer writes a number, of which the format holds 48 bits: a larger one is the
// largest of them.
func (t *Thread) Integer(kind, id StringID, n uint64) {
	t.write(kind, id, min(n, maxNano), markInteger)
}

func (t *Thread) write(kind, id StringID, first, second uint64) {
	if t.page == nil {
		t.page = make([]byte, pageHeaderSize, fullPageSize)
	}
	e := event{kind: uint64(kind), id: uint64(id), thread: t.id}
	e.setPayload(first, second)
	t.page = e.appendTo(t.page)
	if len(t.page) == fullPageSize {
		_ = t.Flush() // the Writer keeps the error
	}
}

// Flush writes the events that are still in memory.
func (t *Thread) Flush() error {
	if len(t.page) <= pageHeaderSize {
		return t.w.Err()
	}
	err := t.w.flushStrings()
	if err == nil {
		appendPageHeader(t.page[:0], tagEvents, len(t.page)-pageHeaderSize)
		err = t.w.write(t.page, nil)
	}
	t.page = t.page[:pageHeaderSize]
	return err
}

// Close flushes and lets the page go. The Thread must not be used any more.
func (t *Thread) Close() error {
	err := t.Flush()
	t.page = nil
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	delete(t.w.threads, t)
	return err
}
