package entracefilereceiver

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/receiver"
	"go.uber.org/zap"

	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
	"github.com/entrace-go/entrace/internal/write/safecall"
	"github.com/entrace-go/entrace/view"
)

var (
	_ receiver.Traces = (*reader)(nil)
	_ receiver.Logs   = (*reader)(nil)
)

// A signal is a kind of record that a reader sends: spans or log records.
type signal struct {
	kind otlp.Signals
	role view.Role
	// consume passes an OTLP message to the next component, and returns the number of records in the message.
	consume func(ctx context.Context, message []byte) (records int, err error)
}

// A reader is the receiver of one signal. Each reader reads the files separately, so that a slow next component of
// one signal does not delay the other signal.
type reader struct {
	cfg    *Config
	log    *zap.Logger
	signal signal
	files  []*file
	told   map[string]string // path of a file that cannot be opened → the error that was logged, "" before the first

	renamed map[string]*deadtrace.Rotation // by path that names a file

	mu   sync.Mutex
	stop context.CancelFunc // nil before Start and after Shutdown
	done chan struct{}      // closed when run has returned
}

func newReader(cfg *Config, log *zap.Logger, s signal) *reader {
	return &reader{cfg: cfg, log: log, signal: s, told: make(map[string]string), renamed: make(map[string]*deadtrace.Rotation)}
}

// Start begins to read. It is not an error if no file exists yet.
func (r *reader) Start(context.Context, component.Host) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop != nil {
		return nil
	}
	ctx, stop := context.WithCancel(context.Background()) // not the ctx of Start, which ends when Start returns
	r.stop, r.done = stop, make(chan struct{})
	if len(r.findTraces()) == 0 {
		r.log.Info("no trace found yet", zap.Strings("paths", r.cfg.Paths))
	}
	if r.cfg.StartAt == atEnd {
		r.scan(ctx, true)
	}
	go r.run(ctx, r.done)
	return nil
}

// Shutdown stops reading. Records that the next component has not accepted are not sent.
func (r *reader) Shutdown(ctx context.Context) error {
	r.mu.Lock()
	stop, done := r.stop, r.done
	r.stop = nil
	r.mu.Unlock()
	if stop == nil {
		return nil
	}
	stop()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run reads until ctx is done.
func (r *reader) run(ctx context.Context, done chan struct{}) {
	defer close(done)
	defer func() {
		for _, x := range r.files {
			x.close()
		}
		r.files = nil
	}()
	t := time.NewTicker(r.cfg.PollInterval)
	defer t.Stop()
	for {
		for _, x := range r.files {
			r.read(ctx, x, false)
		}
		r.scan(ctx, false)
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// read sends the records that a file has now. If skip is set, they only count as sent, except open spans, which are sent
// when they end. Those of a dead writer do not end. If reading the file panics, the file is not read again.
func (r *reader) read(ctx context.Context, x *file, skip bool) {
	if x.view == nil {
		return
	}
	err := safecall.Run(func() error {
		rows, err := x.completed(ctx, r.signal.role)
		if skip {
			if lock, _ := osfile.LockHolder(x.path); lock == osfile.LockFree {
				x.open = nil
			}
			return err
		}
		if err == nil && len(rows) > 0 {
			deliver := messages(func(message []byte) error { return r.deliver(ctx, message) })
			err = otlp.Encode(ctx, deliver, x.view, &otlp.EncodeOptions{Protobuf: true, Signals: r.signal.kind, Rows: slices.Values(rows)})
			x.sent += len(rows)
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		r.log.Error("cannot send the rest of a file", zap.String("file", x.path), zap.Error(err))
		x.ended = true
	}
	if !x.ended || ctx.Err() != nil {
		return
	}
	if damage := x.damage(); damage != nil {
		r.log.Warn("a file is damaged: sent only its undamaged records", zap.String("file", x.path), zap.Error(damage))
	}
	r.log.Info("finished reading a file", zap.String("file", x.path), zap.Stringer("what", r.signal.role), zap.Int("records", x.sent))
	x.close()
}

// A messages function is an io.Writer for otlp.Encode, which writes one message per call, with its size before it.
type messages func(message []byte) error

const sizeOfSize = 4

func (f messages) Write(p []byte) (int, error) { return len(p), f(p[sizeOfSize:]) }

// The pause between two attempts doubles from firstTry up to lastTry.
const (
	firstTry = 100 * time.Millisecond
	lastTry  = 10 * time.Second
)

// deliver passes a message to the next component. It tries again until the component accepts the message, and
// blocks until then. A message that the component permanently refuses is logged and dropped.
func (r *reader) deliver(ctx context.Context, message []byte) error {
	for pause := firstTry; ; pause = min(2*pause, lastTry) {
		n, err := r.signal.consume(ctx, message)
		if err == nil {
			return nil
		}
		if isPermanent(err) {
			r.log.Error("the next component refused records permanently: they are lost", zap.Int("records", n), zap.Error(err))
			return nil
		}
		if pause == firstTry {
			r.log.Warn("the next component refused records: sending them again", zap.Int("records", n), zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// isPermanent is a copy of the Collector's consumererror.IsPermanent, because the module of that function has no
// stable version. The type of such an error is not exported, so isPermanent compares its name.
func isPermanent(err error) bool {
	if fmt.Sprintf("%T", err) == "consumererror.permanent" {
		return true
	}
	switch err := err.(type) { //nolint:errorlint // this is the walk of errors.As, for a type without a name
	case interface{ Unwrap() error }:
		return isPermanent(err.Unwrap())
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(err.Unwrap(), isPermanent)
	}
	return false
}
