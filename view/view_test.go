package view_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

// randomEntries returns entries with many hard cases: parents that come later, are missing or form a cycle,
// unsorted siblings, equal ids, and spans that end several times or continue in another file.
func randomEntries(r *rand.Rand, n, file int) []*format.TraceEntry {
	all := []*format.TraceEntry{format.Root()}
	long := "long"
	if n < 100 && r.IntN(20) == 0 {
		long = strings.Repeat("long ", 1<<14) // its length needs more than 16 bits
	}
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	span := func() format.Value { return format.StringValue(fmt.Sprintf("%016x", r.IntN(n/3+2))) }
	trace := func() format.Value { return format.StringValue(fmt.Sprintf("%032x", r.IntN(4))) }
	const files = 20 // files have no common times, so that there are no copies
	at := func() format.Value {
		switch r.IntN(20) {
		case 0:
			return format.I64Value(-int64(r.IntN(1000)*files - file))
		case 1:
			return format.U64Value(math.MaxInt64 - uint64(file))
		case 2:
			return format.U128Value(0, uint64(r.IntN(1000)))
		case 3:
			return format.I128Value(-int64(r.IntN(2)), uint64(-r.IntN(2)*(1+r.IntN(1000))))
		}
		return format.U64Value(uint64(1000 + r.IntN(500)*files + file))
	}
	for len(all) < n {
		e := &format.TraceEntry{Parent: uint32(r.IntN(len(all))), Metadata: format.Metadata{Name: pick("a", "b", "GET /cart"), Target: pick("", "scope"), Level: format.Level(r.IntN(5))}}
		add := func(name string, v format.Value) {
			e.Add(name, v)
		}
		if r.IntN(3) == 0 {
			add(pick("user", "db", "n"), format.I64Value(r.Int64N(100)))
		}
		switch r.IntN(12) {
		case 0:
			e.Parent = 0
			e.Metadata.Name, e.Message = format.NameResource, format.Some(pick("shop", "stock"))
			if r.IntN(2) == 0 {
				add("service.name", format.StringValue(pick("shop", "price")))
			}
		case 1, 2, 3, 4:
			add(format.AttrSpanID, span())
			add(format.AttrTime, at())
			if r.IntN(2) == 0 {
				add(format.AttrTraceID, trace())
			}
			if r.IntN(3) == 0 {
				add(format.AttrParentSpanID, span())
			}
			if r.IntN(4) == 0 {
				add(format.AttrDuration, format.U64Value(uint64(r.IntN(300))))
			}
			if r.IntN(3) == 0 {
				add(mapping.AttrKind, format.StringValue(pick("server", "client", "odd")))
			}
			if r.IntN(4) == 0 {
				add(mapping.AttrContinued, format.BoolValue(file > 0))
			}
		case 5, 6, 7:
			e.Metadata.Name = format.NameSpanEnd
			add(format.AttrSpanID, span())
			if r.IntN(3) == 0 {
				add(format.AttrTraceID, trace())
			}
			if r.IntN(5) > 0 {
				add(format.AttrDuration, format.U64Value(uint64(r.IntN(300))))
			}
			if r.IntN(4) == 0 {
				e.Message = format.Some(pick("renamed", "again", long))
			}
			if r.IntN(4) == 0 {
				add(mapping.AttrStatusCode, format.StringValue(pick("OK", "ERROR", "odd")))
			}
			if r.IntN(9) == 0 {
				add(mapping.AttrEvent, format.BoolValue(true))
			}
		case 8, 9:
			e.Metadata.Name, e.Message = pick("event", "event x"), format.Some(pick("hello", "payment failed", "", long))
			add(format.AttrTime, at())
			if r.IntN(2) == 0 {
				add(format.AttrSpanID, span())
			}
			if r.IntN(3) == 0 {
				add(format.AttrTraceID, trace())
			}
		case 10:
			add(mapping.AttrEvent, format.BoolValue(true))
			if r.IntN(3) > 0 {
				add(format.AttrTime, at())
			}
			if r.IntN(2) == 0 {
				e.Metadata.Name = "exception"
			}
		case 11:
			e.Metadata.Name = pick(mapping.NameLink, mapping.NameEnd)
			add(mapping.AttrLinkTraceID, trace())
		}
		all = append(all, e)
	}
	return all
}

// write writes entries to a file and opens it.
func write(t testing.TB, v format.Version, sf format.StorageFormat, entries []*format.TraceEntry) *format.File {
	return tracetest.New(t, v, sf, entries...).Open()
}

var must = expect.Must

// TestViewAsModel compares views of random files with the model. The model has no copies of spans, which few of the views
// have by chance.
func TestViewAsModel(t *testing.T) {
	seeds, withCopies := hosttest.Times(150, 3000), 0
	for seed := range seeds {
		r := rand.New(rand.NewPCG(uint64(seed), 1))
		var files []*format.File
		count := 1 + seed%3
		if seed%10 == 9 {
			count = 12 + r.IntN(8) // more than fewRows
		}
		for k := range count {
			sf := []format.StorageFormat{format.ET, format.IET, format.IETPrefix}[r.IntN(3)]
			files = append(files, write(t, format.Version(1+r.IntN(2)), sf, randomEntries(r, 2+r.IntN(60), k)))
		}
		v, err := view.New(t.Context(), files, &view.Options{Workers: 1 + r.IntN(3)})
		must(t, err)
		if v.Copies() > 0 {
			withCopies++
			continue
		}
		newModel(t, files).compare(t, v)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if withCopies > seeds/100 {
		t.Errorf("%d of %d views have copies", withCopies, seeds)
	}
}
