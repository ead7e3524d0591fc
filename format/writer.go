package format

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"math"

	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/file/osfile"
)

// WriterOptions change how a [Writer] works.
type WriterOptions struct {
	// TempDir is the folder for a temporary file. A Writer of an ET keeps the entries in this file until Close.
	// The default is os.TempDir.
	TempDir string
}

// A Writer writes a trace to any io.Writer, entry by entry. It is meant for converters. Services should use
// package recorder.
//
// A Writer is not safe for concurrent use.
type Writer struct {
	w       *bufio.Writer // the destination, or the data section of an ET
	version Version
	format  StorageFormat
	next    uint64
	buf     []byte
	sorted  []Attribute
	err     error

	// The following fields are used only for an ET, whose tables precede its data section.
	dst   io.Writer
	spool *osfile.Spool
	table table
}

// NewWriter returns a Writer that writes a trace of version v and format f to w. A nil o means defaults. The
// caller must call Close at the end. Close does not close w.
func NewWriter(w io.Writer, v Version, f StorageFormat, o *WriterOptions) (*Writer, error) {
	if v == 0 {
		v = DefaultVersion
	}
	if err := v.Check(); err != nil {
		return nil, err
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	if o == nil {
		o = &WriterOptions{}
	}
	t := &Writer{version: v, format: f, dst: w}
	t.table.offsets.add(0) // the spool has only entries, and the first is at offset 0
	if f != ET {
		t.w = bufio.NewWriterSize(w, walkSize)
		_, err := t.w.Write(wire.AppendMagic(nil, v, f))
		return t, err
	}
	var err error
	t.spool, err = osfile.CreateSpool(o.TempDir)
	if err != nil {
		return nil, err
	}
	t.w = bufio.NewWriterSize(t.spool, walkSize)
	return t, nil
}

// Write writes e and returns its id. The first entry must be [Root]. The parent of any other entry must be an
// earlier entry, otherwise the error is [ErrInvalid]. In version 2, Write sorts the attributes in the output. It
// does not change e.
func (w *Writer) Write(e *TraceEntry) (uint32, error) {
	if e.Metadata.Level >= numLevels {
		return 0, errBadLevel
	}
	if w.version.hasColumns() && !isSorted(e.Attributes) {
		c := *e
		w.sorted = append(w.sorted[:0], e.Attributes...)
		SortAttributes(w.sorted)
		c.Attributes = w.sorted
		e = &c
	}
	w.buf = AppendTraceEntry(w.buf[:0], w.version, e)
	return w.WriteRaw(w.buf, e.Parent)
}

// Version returns the disk version of the output.
func (w *Writer) Version() Version { return w.version }

// Len returns the number of entries that were written.
func (w *Writer) Len() int64 { return int64(w.next) }

// WriteRaw writes an entry that is already encoded in the version of w, for example by [Reader.Raw]. It does not
// check that raw is valid.
func (w *Writer) WriteRaw(raw []byte, parent uint32) (uint32, error) {
	switch {
	case w.err != nil:
		return 0, w.err
	case w.next > math.MaxUint32:
		return 0, ErrFull
	case uint64(parent) >= w.next && (parent != 0 || w.next > 0):
		return 0, errBadParent
	}
	switch w.format {
	case IETPrefix:
		var n [prefixSize]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(raw)))
		_, w.err = w.w.Write(n[:])
		if w.err != nil {
			return 0, w.err
		}
	case ET:
		w.table.offsets.add(w.table.offsets.last() + uint64(len(raw)))
		w.table.parents = append(w.table.parents, parent)
	}
	_, w.err = w.w.Write(raw)
	if w.err != nil {
		return 0, w.err
	}
	w.next++
	return uint32(w.next - 1), nil
}

// Flush writes buffered bytes: for an ET to the temporary file, otherwise to the destination.
func (w *Writer) Flush() error {
	if w.err == nil {
		w.err = w.w.Flush()
	}
	return w.err
}

// Close flushes. For an ET, it then writes the complete file to the destination. Always call Close or Abort, because
// they remove the temporary file. If an earlier call failed, Close returns the same error. A second Close returns
// [ErrClosed].
func (w *Writer) Close() error {
	err := w.Flush()
	if err == nil && w.format == ET {
		err = writeET(w.dst, w.version, &w.table, w.spool, func(int64) error { return nil })
	}
	err = errors.Join(err, w.Abort())
	if err != nil {
		w.err = err
	}
	return err
}

// Abort ends w without writing more. After Close it does nothing.
func (w *Writer) Abort() error {
	if w.err == nil {
		w.err = ErrClosed
	}
	if w.spool == nil {
		return nil
	}
	err := w.spool.Close()
	w.spool = nil
	return err
}
