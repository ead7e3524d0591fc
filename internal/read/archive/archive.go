package archive

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/entrace-go/entrace/convert/parquet"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/tracename"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
	"github.com/entrace-go/entrace/view"
)

// A Target is the storage of an archive.
type Target interface {
	// Has reports whether an object with the given key exists.
	Has(ctx context.Context, key string) (bool, error)
	// Create begins an object. Its Commit stores it under the key, and replaces an existing object.
	Create(ctx context.Context, key string) (Object, error)
}

// An Object is an object that is being written.
type Object interface {
	io.Writer
	// Commit stores the complete object under its key.
	Commit(ctx context.Context) error
	// Discard releases the resources of the object. If the object is not committed, Discard deletes it.
	Discard()
}

// A Manifest describes a source, that is, a finished trace, and the objects that were made from it.
type Manifest struct {
	Name    string `json:"name"` // without the folder
	Size    int64  `json:"size"`
	SHA256  string `json:"sha256"`
	Objects []Part `json:"objects"`
}

func (m *Manifest) key() string { return "_manifest/" + m.SHA256 + ".json" }

// A Part describes an object.
type Part struct {
	Key   string `json:"key"`
	Rows  int    `json:"rows"`
	Bytes int64  `json:"bytes"` // 0 in a dry run
}

// A Result says what Run did with one file of the folder.
type Result struct {
	File     string // its path
	Left     string // why the file was not archived; "" if it was archived
	Before   bool   // whether an earlier run archived the file
	Manifest Manifest
}

// Options change how Run works.
type Options struct {
	// DryRun writes nothing. The results name the objects that a run would write.
	DryRun bool
	// Report is called for each trace in the folder. err is not nil if the trace is damaged or cannot be read.
	Report func(r *Result, err error)
}

// Run archives the finished traces in the folder dir, but not in its subfolders. It returns an error if it cannot
// list dir, if the target fails, or if ctx ends. After a damaged trace it continues with the next trace.
func Run(ctx context.Context, dir string, target Target, o Options) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		r := &Result{File: filepath.Join(dir, e.Name())}
		ours, err := r.archive(ctx, e.Type(), target, o.DryRun)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if failed, ok := errors.AsType[*targetError](err); ok {
			return fmt.Errorf("archive %s: %w", r.File, failed.error)
		}
		if ours || err != nil {
			o.Report(r, err)
		}
	}
	return nil
}

// A targetError is an error of the target.
type targetError struct{ error }

func (e *targetError) Unwrap() error { return e.error }

func ofTarget(err error) error {
	if err == nil {
		return nil
	}
	return &targetError{err}
}

// archive archives the file if it is a finished trace. The result ours is true if the file is a trace, finished or
// not.
func (r *Result) archive(ctx context.Context, mode fs.FileMode, target Target, dry bool) (ours bool, err error) {
	ext := filepath.Ext(r.File)
	named := ext == tracename.ET || ext == tracename.IET
	if !mode.IsRegular() {
		r.Left = "not a regular file, and links are not followed"
		return named, nil
	}
	if base, ok := strings.CutSuffix(r.File, tracename.Broken); ok && tracename.Base(base) != base {
		r.Left = "the file is the damaged original of a recovered trace"
		return true, nil
	}
	f, err := osfile.OpenRead(r.File)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // retention has deleted the file in the meantime
	}
	if err != nil {
		return named, err
	}
	defer f.Close()
	_, kind, err := format.ReadMagic(f)
	switch {
	case ext == tracename.IET, err == nil && kind != format.ET:
		switch {
		case osfile.Locked(r.File):
			r.Left = "a process is writing it"
		case deadtrace.EndsCleanly(r.File):
			r.Left = "the file is an IET: convert it to an ET with 'entrace convert'"
		default:
			r.Left = "the trace is not finished: finish it with 'entrace recover'"
		}
		return true, nil
	case err == nil:
		return true, r.finished(ctx, f, target, dry)
	case named:
		return true, fmt.Errorf("%s: %w", r.File, err)
	}
	return false, nil
}

// finished archives the ET f.
func (r *Result) finished(ctx context.Context, f *os.File, target Target, dry bool) error {
	m := &r.Manifest
	sum, size, err := hashOf(ctx, f)
	if err != nil {
		return fmt.Errorf("read %s: %w", r.File, err)
	}
	m.Name, m.Size, m.SHA256 = filepath.Base(r.File), size, sum
	r.Before, err = target.Has(ctx, m.key())
	if err != nil || r.Before {
		return ofTarget(err)
	}
	own, err := osfile.OpenRead(r.File) // the trace needs its own file, because it closes the file
	if err != nil {
		return err
	}
	if !osfile.SameFile(f, r.File) {
		return errors.Join(fmt.Errorf("%s was replaced while it was read: run the archive command again", r.File), own.Close())
	}
	trace, err := format.Open(r.File, &format.OpenOptions{File: own})
	if err != nil {
		return fmt.Errorf("%s: %w", r.File, err)
	}
	defer trace.Close()
	v, err := view.New(ctx, []*format.File{trace}, nil)
	if err == nil {
		err = v.Damage(0)
	}
	var d *division
	if err == nil {
		d, err = divide(v)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", r.File, err)
	}
	for i, p := range d.parts {
		part := Part{Key: p.key(m.SHA256, i+1), Rows: p.rows}
		if !dry {
			part.Bytes, err = put(ctx, target, part.Key, func(w io.Writer) error {
				return parquet.EncodeRows(ctx, w, v, func(row view.Row) bool { return int(d.of[row]) == i })
			})
			if err != nil {
				return fmt.Errorf("%s: %w", r.File, err)
			}
		}
		m.Objects = append(m.Objects, part)
	}
	if dry {
		return nil
	}
	_, err = put(ctx, target, m.key(), func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(m)
	})
	return err
}

// put writes an object and returns its size.
func put(ctx context.Context, target Target, key string, write func(w io.Writer) error) (size int64, err error) {
	object, err := target.Create(ctx, key)
	if err != nil {
		return 0, ofTarget(err)
	}
	defer object.Discard()
	c := &countingWriter{w: object}
	b := bufio.NewWriterSize(c, 256<<10)
	if err := errors.Join(write(b), b.Flush()); err != nil {
		return 0, err
	}
	return c.n, ofTarget(object.Commit(ctx))
}

// A countingWriter is a writer to a target. It counts the written bytes.
type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, ofTarget(err)
}

// hashOf returns the SHA-256 of the content of f, and its size in bytes.
func hashOf(ctx context.Context, f *os.File) (sum string, size int64, err error) {
	h := sha256.New()
	for b := make([]byte, 1<<20); ctx.Err() == nil; {
		n, err := f.ReadAt(b, size)
		h.Write(b[:n])
		size += int64(n)
		if errors.Is(err, io.EOF) {
			return hex.EncodeToString(h.Sum(nil)), size, nil
		}
		if err != nil {
			return "", 0, err
		}
	}
	return "", 0, ctx.Err()
}
