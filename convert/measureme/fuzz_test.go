package measureme

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/entrace-go/entrace/convert/internal/input"
	"github.com/entrace-go/entrace/view"
)

// FuzzDecode checks that no input makes Decode panic or take long, and that every error has a position. Encoding
// and decoding the result again must not change it.
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
	f.Add(cyclic.file())
	f.Add(append(cyclic.file(), make([]byte, fullPageSize+3)...))
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
		if v.Len() == 0 {
			return
		}
		var first bytes.Buffer
		if err := Encode(context.Background(), &first, v); errors.Is(err, errRange) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		// Encode replaces characters that the tools do not accept. A second time, nothing must change.
		again, err := decode(t, first.Bytes())
		must(t, err)
		if got, want := count(again), count(v); got != want {
			t.Fatalf("%d events become %d", want, got)
		}
		second := converter.Bytes(t, again)
		third := converter.Bytes(t, mustDecode(t, second))
		if !bytes.Equal(second, third) {
			t.Errorf("written again, the file is another")
		}
	})
}

// count returns how many rows become events.
func count(v *view.View) (n int) {
	for id := range v.Rows() {
		switch v.Role(id) {
		case view.RoleSpan, view.RoleEvent, view.RoleLog:
			n++
		}
	}
	return n
}
