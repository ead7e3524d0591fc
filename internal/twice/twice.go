// Package twice notices log records that reach a recorder by both ways that lead there: log/slog's
// handler, and the processor or exporter of OpenTelemetry's log SDK. A program that registers
// both, one of them through a bridge, records each of its records twice.
package twice

import (
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/entrace-go/entrace/internal/notice"
	"github.com/entrace-go/entrace/recorder"
)

// recent is how many records of a way are remembered, each in the place that its time says.
const recent = 64

// A way remembers the latest records that came by it.
type way struct {
	used atomic.Bool
	seen [recent]atomic.Uint64 // their sums
}

var (
	slog, otel way
	seed       = maphash.MakeSeed()
	told       sync.Map // *recorder.Recorder by their addresses
)

// errTwice is what people are told.
var errTwice = errors.New("entrace: log records are recorded twice: by the handler for log/slog and by the processor of OpenTelemetry's LoggerProvider; " +
	"leave out the one or the other, such as slogadapter's handler where otelslog is one, or use entrace.WithoutLogs")

// Slog notes a record of log/slog's handler that r has taken, with the span that it has, zero for
// none. No lock may be held.
func Slog(r *recorder.Recorder, span [8]byte, unixNano int64, message string) {
	if slog.used.Load() && !otel.used.Load() {
		return // one way alone costs no more than this, but for its first record
	}
	note(&slog, &otel, r, span, unixNano, message)
}

// OTel is Slog for the other way.
func OTel(r *recorder.Recorder, span [8]byte, unixNano int64, message string) {
	if otel.used.Load() && !slog.used.Load() {
		return
	}
	note(&otel, &slog, r, span, unixNano, message)
}

func note(own, other *way, r *recorder.Recorder, span [8]byte, unixNano int64, message string) {
	sum := maphash.Comparable(seed, struct {
		recorder uintptr
		span     [8]byte
		time     int64
		message  string
	}{address(r), span, unixNano, message})
	at := (uint64(unixNano) * 0x9E3779B97F4A7C15) >> 58 // clocks count in steps
	own.seen[at].Store(sum)
	if !own.used.Load() {
		own.used.Store(true)
	}
	if other.seen[at].Load() != sum {
		return
	}
	if _, before := told.LoadOrStore(address(r), true); !before {
		notice.Error(errTwice)
	}
}

// address does not keep r alive.
func address(r *recorder.Recorder) uintptr { return uintptr(unsafe.Pointer(r)) }
