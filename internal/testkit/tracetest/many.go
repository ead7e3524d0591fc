package tracetest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
)

// WriteMany writes a trace of at least size bytes. If fakes is set, the attributes contain encoded entries.
func WriteMany(t *testing.T, name string, version format.Version, f format.StorageFormat, size int, fakes bool) {
	t.Helper()
	x := New(t, version, f, format.Root())
	fake := bytes.Repeat(append([]byte{0, 0, 1, 'n', 0, 2, 0, 0, 0, 0}, make([]byte, 10)...), 40)
	if !fakes {
		fake = []byte(strings.Repeat("what is no entry. ", 40))
	}
	defer x.Save(name)
	defer x.Add(Entry(mapping.NameEnd, "entries", uint64(1)))
	for i := 0; i*400 < size; i++ {
		x.Add(&format.TraceEntry{
			Parent: uint32(i / 2), Message: format.Some(fmt.Sprint("message ", i)),
			Metadata:   format.Metadata{Name: "event", Target: "t", Level: format.LevelInfo},
			Attributes: Attributes("b", fake[i%40:400], "i", uint64(i)),
		})
	}
}
