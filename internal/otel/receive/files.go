package receive

import (
	"cmp"
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/entrace-go/entrace/internal/file/receivedfiles"
	"github.com/entrace-go/entrace/internal/otel/codec"
	"github.com/entrace-go/entrace/internal/otel/sink"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/redact"
)

// FolderOptions configure [ToFolder].
type FolderOptions struct {
	// Dir is the folder for the files. It must exist.
	Dir string
	// Idle is the time after which the file of a service that sends nothing is finished. The default is five minutes.
	Idle time.Duration
	// MaxOpen is the maximum number of files that are open for writing. To open another file, the file that was idle
	// longest is suspended. It is resumed when its service sends again. The default is 64.
	MaxOpen int
	// MaxBytes and MaxFiles limit all traces in the folder. If finished traces exceed KeepBytes, the oldest traces
	// are removed. Zero means no limit.
	MaxBytes, KeepBytes int64
	MaxFiles            int
	// Redact decides which values are secrets and are replaced. Nil means [redact.Off].
	Redact *redact.Policy
	// OnBegun is called when the file of a service begins, OnDone when it is finished or cannot be created, and
	// OnError for errors in between. They may be called concurrently.
	OnBegun func(path, service string)
	OnDone  func(path string, entries uint64, bytes int64, err error)
	OnError func(path string, err error)
}

// Files is a Sink that records each service to a file of its own, or all services to one file.
type Files struct {
	// Trusted says that this process itself sends the requests. If it is set, a request may have any number of
	// records. It may be set before the first call of Take.
	Trusted bool

	one      *file   // the file of all services, or nil
	folder   *folder // the files of services, or nil
	repeated repeats
	requests sync.Pool     // of *sink.Index
	turns    chan struct{} // limits the requests that are recorded at the same time
}

const (
	// maxTurns is the maximum number of requests that are recorded at the same time. This also limits their memory,
	// and the number of files in use.
	maxTurns = 16
	// A request may have one record, scope or resource for every bytesOfItem bytes, but always minItems. Without a
	// limit, an empty item of two bytes would cost far more memory and time than its size.
	minItems    = 1 << 18
	bytesOfItem = 64
)

// ToFile returns Files that record all services to rec. The caller closes rec later.
func ToFile(rec *recorder.Recorder) *Files {
	return &Files{one: &file{rec: rec}, turns: make(chan struct{}, maxTurns)}
}

// ToFolder returns Files that record each service to a file of its own, until Close. Attributes of the resource
// identify the service.
func ToFolder(o FolderOptions) (*Files, error) {
	o.Idle, o.MaxOpen = cmp.Or(o.Idle, 5*time.Minute), cmp.Or(o.MaxOpen, 64)
	f := &Files{turns: make(chan struct{}, min(maxTurns, o.MaxOpen))}
	f.folder = &folder{
		o: o, files: make(map[string]*file), directory: newDirectory(), forget: f.repeated.forget,
		stop: make(chan struct{}), finishing: make(chan struct{}, maxFinishing),
		quota: receivedfiles.Quota{
			Dir: o.Dir, MaxBytes: cmp.Or(o.MaxBytes, math.MaxInt64), MaxFiles: cmp.Or(int64(o.MaxFiles), math.MaxInt64),
		},
	}
	if err := f.folder.quota.Rescan(); err != nil {
		return nil, err
	}
	go f.folder.watch()
	return f, nil
}

// Close finishes the files of a folder. If ctx ends before all files are finished, it leaves the other files as IETs.
// After Close, Take returns ErrFull. Close only Files that ToFolder returned.
func (f *Files) Close(ctx context.Context) { f.folder.close(ctx) }

// Take implements Sink. Usually it opens the files of all services in the request before it records anything. If
// the request names too many services for this, it handles one resource after the other.
func (f *Files) Take(ctx context.Context, s codec.Signal, e codec.Encoding, b []byte) (done Result, err error) {
	select {
	case f.turns <- struct{}{}:
		defer func() { <-f.turns }()
	case <-ctx.Done():
		return Result{}, ErrFull // the sender has disconnected
	}
	sum := uint64(0)
	if s == codec.Spans {
		var spans int
		var again bool
		sum, spans, again = f.repeated.find(b)
		if again {
			return Result{Taken: spans}, nil
		}
	}
	if f.folder != nil {
		if err := f.folder.full(); err != nil {
			return Result{}, err
		}
	}
	ix, ok := f.requests.Get().(*sink.Index)
	if !ok {
		ix = new(sink.Index)
	}
	defer func() {
		ix.Reset(nil)
		f.requests.Put(ix)
	}()
	r := codec.NewReader(b, e)
	r.Assume(s)
	damage := f.walk(r, ix, e, b)
	if errors.Is(damage, codec.ErrMany) {
		return Result{}, &DamageError{damage}
	}
	q := request{r: r, ix: ix, scopes: scopesFloor + scopesFactor*int64(len(b))}
	parts := q.parts(len(b))
	// If possible, open all files before recording anything, so that the request is refused or accepted as a whole.
	together := f.folder == nil || len(parts) <= max(1, f.folder.o.MaxOpen/cap(f.turns))
	for i := range parts {
		defer f.closePart(&parts[i])
		if !together {
			continue
		}
		if err := f.openPart(&q, &parts[i]); errors.Is(err, ErrFull) {
			return Result{}, err
		}
	}
	if err := admit(ctx, parts); err != nil {
		return Result{}, err
	}
	var full error
	for i := range parts {
		p := &parts[i]
		var one Result
		err := p.err
		if !together {
			err = f.openPart(&q, p)
			if err == nil {
				err = admit(ctx, parts[i:i+1])
			}
		}
		if err == nil && p.file != nil {
			one, err = p.record(f.folder, &q)
			if errors.Is(err, ErrFull) {
				return Result{}, err // a part was recorded, but the sender sends the whole request again
			}
		}
		if !together {
			f.closePart(p)
		}
		if err != nil {
			one = Result{Refused: p.records, Why: err}
			if errors.Is(err, ErrFull) {
				full = err
			} else {
				damage = cmp.Or(damage, err)
			}
		}
		if p.refused > 0 {
			one.Refuse(p.refused, ErrNoID)
		}
		done.Taken += one.Taken
		done.Refuse(one.Refused, one.Why)
	}
	switch {
	case full != nil && done.Taken == 0:
		return Result{}, full
	case damage != nil:
		return done, &DamageError{damage}
	case s == codec.Spans && done.Refused == 0 && !q.hasLog:
		f.repeated.add(sum, done.Taken)
	}
	return done, nil
}

// walk adds the records of a request to ix.
func (f *Files) walk(r *codec.Reader, ix *sink.Index, e codec.Encoding, b []byte) error {
	limit := max(minItems, len(b)/bytesOfItem)
	if f.Trusted {
		limit = math.MaxInt
	}
	r.Limit(limit)
	ix.Reset(b)
	end, damage := r.Walk(0, int64(len(b)), false, ix)
	for damage == nil && e == codec.JSON && end < int64(len(b)) { // OTLP's file format has several messages one after the other
		end, damage = r.Walk(end, int64(len(b)), false, ix)
	}
	if damage != nil && e == codec.Protobuf { // b may be truncated: then the lengths of the outer messages are wrong
		ix.Reset(b)
		r.Limit(limit)
		_, damage = r.Walk(0, int64(len(b)), true, ix)
	}
	return damage
}
