package control_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

// TestTwoSnapshotsOfOneProcess opens a view of two snapshots. The entries that both have occur once in it,
// and a span that ended after the first snapshot has ended.
func TestTwoSnapshotsOfOneProcess(t *testing.T) {
	dir := t.TempDir()
	shot := control.TraceConfig{Name: "shot", Providers: control.Spans | control.Logs | control.Goroutines, Window: time.Hour, On: onAPI("shot")}
	r := rigOf(t, base(dir, control.Spans|control.Logs, shot))
	ask := control.Request{Trigger: control.TriggerAPI, Key: "shot", Manual: true}
	ctx, request := r.tracer.Start(t.Context(), "GET /cart")
	child, query := r.tracer.Start(ctx, "SELECT")
	r.log.InfoContext(child, "querying")
	r.log.Info("outside of all spans")
	query.End()
	first := r.start(ask)
	r.log.InfoContext(ctx, "after the first")
	request.End()
	second := r.start(ask)
	<-first.Done()
	<-second.Done()
	var files []*format.File
	for _, path := range []string{first.Path(), second.Path()} {
		f := tracetest.OpenFile(t, path)
		files = append(files, f)
	}
	v, err := view.New(t.Context(), files, nil)
	must(t, err)
	got := make(map[string]int)
	for row := range v.Rows() {
		switch v.Role(row) {
		case view.RoleSpan:
			got[fmt.Sprintf("%s ended: %t", v.Name(row), !v.Flags(row).Open())]++
		case view.RoleLog:
			text, _ := v.Message(row)
			got[text]++
		}
	}
	for _, want := range []string{"GET /cart ended: true", "SELECT ended: true", "querying", "outside of all spans", "after the first"} {
		if got[want] != 1 {
			t.Errorf("%q is there %d times, want once: %v", want, got[want], got)
		}
	}
	if v.Copies() < 4 {
		t.Errorf("%d rows are copies", v.Copies())
	}
	r.quiet()
}
