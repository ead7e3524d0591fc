package heph

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/entrace-go/entrace/convert/internal/converttest"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/read/entryjson"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

var open = converttest.Read

var converter = converttest.Format{Encode: Encode, Decode: Decode, Lossy: true}

func TestConverter(t *testing.T) { converter.Run(t) }

var read = tracetest.ReadFile

// samples returns the names of all sample files.
func samples(t testing.TB) []string {
	t.Helper()
	var names []string
	for _, dir := range []string{"testdata", filepath.Join(os.Getenv("ENTRACE_SAMPLES"), "heph")} {
		for _, pattern := range []string{"*.htf", "*.bin"} {
			found, err := filepath.Glob(filepath.Join(dir, pattern))
			converttest.Must(t, err)
			names = append(names, found...)
		}
	}
	return names
}

// decoded decodes packets to a trace.
func decoded(t testing.TB, in []byte, version format.Version) (*view.View, error) {
	t.Helper()
	out, err := converter.Back(t.Context(), t, bytes.NewReader(in), version)
	return open(t, out), err
}

// text returns a trace as JSON lines.
func text(t testing.TB, v *view.View) string {
	t.Helper()
	var b []byte
	converttest.Must(t, v.Files()[0].Walk(0, func(id uint32, e *format.TraceEntry) error {
		b = append(entryjson.Append(b, int64(id), e), '\n')
		return nil
	}))
	return string(b)
}

// appendEvent appends the packet of e.
func appendEvent(b []byte, e *event) []byte {
	at := len(b)
	b = appendEventHead(b, e)
	for i := range e.Attributes {
		b = appendAttribute(b, &e.Attributes[i])
	}
	return setSize(b, at)
}

// u64Values returns an array of at most 65,535 values.
func u64Values(all []uint64) value {
	b := make([]byte, 0, 8*len(all))
	for _, n := range all {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return array(kindU64, len(all), b)
}

// i64Values is like [u64Values], for signed numbers.
func i64Values(all []int64) value {
	b := make([]byte, 0, 8*len(all))
	for _, n := range all {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return array(kindI64, len(all), b)
}

// f64Values is like [u64Values], for floating-point numbers.
func f64Values(all []float64) value {
	b := make([]byte, 0, 8*len(all))
	for _, f := range all {
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(f))
	}
	return array(kindF64, len(all), b)
}

// stringValues is like [u64Values], for texts of at most 65,535 bytes. It panics if a text is longer.
func stringValues(all []string) value {
	var b []byte
	for _, s := range all {
		b = appendString(b, s)
	}
	return array(kindString, len(all), b)
}

func array(t valueType, n int, b []byte) value {
	return value{typ: t | kindArray, num: uint64(n), text: wire.View(b)}
}
