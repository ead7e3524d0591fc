package measureme

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/read/input"
)

// FuzzDecode checks that no input makes Decode panic or take long, that every error has a position, and that all
// entries can be read.
func FuzzDecode(f *testing.F) {
	names, err := filepath.Glob("testdata/*.mm_profdata")
	if err != nil || len(names) == 0 {
		f.Fatal("no fixtures", err)
	}
	if dir := os.Getenv("ENTRACE_SAMPLES"); dir != "" {
		for _, name := range []string{"v8", "v9"} {
			names = append(names, filepath.Join(dir, "measureme", name+".mm_profdata"))
		}
	}
	for _, name := range names {
		b := read(f, name)
		f.Add(b[:min(len(b), 20_000)])
	}
	cyclic := parts{meta: plain, data: ref(id(0)) + "\xff", events: []event{interval(id(0), id(0), 1, 2), {}}}
	f.Add(cyclic.file(f))
	f.Add(append(cyclic.file(f), make([]byte, fullPageSize+3)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<20 {
			t.Skip()
		}
		began := time.Now()
		v, err := decode(t, b)
		if took := time.Since(began); took > time.Minute {
			t.Errorf("%d bytes take %v", len(b), took)
		}
		if e, ok := errors.AsType[*input.Error](err); err != nil && (!ok || e.Offset < 0 || e.Offset > int64(len(b))) {
			t.Fatalf("the error is %v", err)
		}
		for r := range v.Rows() {
			_, err := v.Entry(r)
			must(t, err)
		}
	})
}
