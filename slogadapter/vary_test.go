package slogadapter_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
)

// TestVaryingAttributesAllocateNothing: a place in the source whose records have many different lists of attributes does
// not collect the names of each list again.
func TestVaryingAttributesAllocateNothing(t *testing.T) {
	skipUnderRace(t)
	rec, err := recorder.Create(hosttest.Path(t, "x.et"), nil)
	must(t, err)
	defer rec.Close(context.Background())
	h, ctx := slogadapter.New(rec, nil), context.Background()
	for _, counter := range []bool{false, true} {
		var pcs [1]uintptr
		if counter {
			runtime.Callers(1, pcs[:])
		}
		var records []slog.Record
		for list := range 40 {
			r := slog.NewRecord(time.Now(), slog.LevelInfo, "varies", pcs[0])
			for i := range 10 {
				r.AddAttrs(slog.Int(fmt.Sprintf("name%d_%d", list, i), i))
			}
			records = append(records, r)
		}
		next := 0
		handle := func() {
			_ = h.Handle(ctx, records[next%len(records)])
			next++
		}
		for range 4 * len(records) {
			handle()
		}
		fewest := 1e9
		for range 10 { // the writer's goroutine allocates now and then
			fewest = min(fewest, testing.AllocsPerRun(len(records), handle))
		}
		if fewest > 0 {
			t.Errorf("with a program counter %v, a record has %v allocations", counter, fewest)
		}
	}
}
