// Package bothways detects log records that are recorded twice: by the handler for log/slog, and by the
// processor or exporter of OpenTelemetry's log SDK. This happens if a program uses the handler and also a
// bridge from log/slog to OpenTelemetry.
package bothways

import (
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"unsafe"
	"weak"

	"github.com/entrace-go/entrace/internal/text/notice"
	"github.com/entrace-go/entrace/recorder"
)

// recent is the number of records that a way remembers. Their index is a hash of their time.
const recent = 64

// A way is one of the two ways in which log records reach a recorder: handler or SDK. It remembers the
// latest records.
type way struct {
	used atomic.Bool
	seen [recent]atomic.Uint64 // hashes of the latest records
}

var (
	slog, otel way
	seed       = maphash.MakeSeed()
	told       sync.Map // keys are weak pointers to recorders that have reported the error
)

// errTwice is reported at most once for each recorder.
var errTwice = errors.New("entrace: log records are recorded twice: by the handler for log/slog and by the processor of OpenTelemetry's LoggerProvider; " +
	"remove one of them, such as slogadapter's handler if the program uses otelslog, or use entrace.WithoutLogs")

// Slog remembers a record that log/slog's handler has recorded with r. The parameter span is the id of
// the record's span, or zero. If OTel has seen the same record, Slog reports an error. The caller must
// not hold a lock.
func Slog(r *recorder.Recorder, span [8]byte, unixNano int64, message string) {
	if slog.used.Load() && !otel.used.Load() {
		return // usual case: only this way is in use, and the check costs nothing more
	}
	warnIfBoth(&slog, &otel, r, span, unixNano, message)
}

// OTel is like Slog, but for a record of OpenTelemetry's log SDK.
func OTel(r *recorder.Recorder, span [8]byte, unixNano int64, message string) {
	if otel.used.Load() && !slog.used.Load() {
		return
	}
	warnIfBoth(&otel, &slog, r, span, unixNano, message)
}

func warnIfBoth(own, other *way, r *recorder.Recorder, span [8]byte, unixNano int64, message string) {
	sum := maphash.Comparable(seed, struct {
		recorder uintptr
		span     [8]byte
		time     int64
		message  string
	}{uintptr(unsafe.Pointer(r)), span, unixNano, message}) // as a number, r can be freed
	at := (uint64(unixNano) * 0x9E3779B97F4A7C15) >> 58 // a hash, because some clocks count in large steps
	own.seen[at].Store(sum)
	if !own.used.Load() {
		own.used.Store(true)
	}
	if other.seen[at].Load() != sum {
		return
	}
	if _, before := told.LoadOrStore(weak.Make(r), true); !before {
		notice.Error(errTwice)
	}
}
