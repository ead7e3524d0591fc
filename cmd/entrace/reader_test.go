package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/testkit/querytest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/skills"
)

// wrong has recordings of twelve kinds of failures, and the parts of the verdict that name the cause.
var wrong = []struct {
	kind   string
	record interface {
		Record(t testing.TB, seed uint64) *tracetest.Trace
	}
	verdict string
}{
	{"lock", &querytest.Mall{Requests: 400, Report: 30 * time.Millisecond}, "cause: shop, SELECT items| while GET /report runs"},
	{"lock", &querytest.Store{Requests: 600, Frozen: 2 * time.Second, Mix: only(3), Slow: one("quote", 4)}, "nothing happened for 2| in quote of shop"},
	{"repeated calls", &querytest.Store{Requests: 600, More: 60}, "GET /orders/:user|select name from item where id=?"},
	{"repeated calls", &querytest.Store{Requests: 600, More: 12, From: .5}, "cause: shop, GET /orders/:user|sql.query"},
	{"slow query", &querytest.Store{Requests: 600, Slow: one("sql.query", 12)}, "GET /orders/:user|sql.query"},
	{"slow query", &querytest.Mall{Requests: 400, From: 200, Slow: one("SELECT items", 5)}, "cause: shop, SELECT items"},
	{"failing route", &querytest.Store{Requests: 600, From: .5, Fails: one("POST /pay", .5)}, "cause: pay, POST /pay"},
	{"failing route", &querytest.Store{Requests: 600, Mix: only(0, 3), Fails: one("quote", 1)}, "requests GET /quote fail|quote: "},
	{"error text", &querytest.Mall{Requests: 400, From: 200, Fails: .5}, "cause: stock, reserve|out of stock"},
	{"error text", &querytest.Store{Requests: 600, From: .5, Fails: one("reserve", .4), Base: one("reserve", .02)}, "cause: shop, reserve|out of stock"},
	{"leak", made(leak), "20 → 1470 goroutines"},
	{"hang", made(hang), "POST /hang is in reserve|spans have not ended"},
	{"hang", &querytest.Store{Requests: 600, Frozen: 2 * time.Second, Mix: only(1)}, "nothing happened for 2|sql.query"},
	{"retries", made(retries), "72 of 96 calls of send repeat a call that failed"},
	{"slow tenant", &querytest.Store{Requests: 600, Slow: one("sql.query", 6), Tenant: "t3", Tenants: 12, Mix: only(0)}, `cause: shop, |where .tenant = "t3"`},
	{"slow tenant", &querytest.Mall{Requests: 400, Slow: one("SELECT items", 20), Tenant: "t7"}, `cause: shop, |where .tenant = "t7"`},
	{"dead service", &querytest.Store{Requests: 600, Fails: one("POST /pay", 1)}, "POST /buy fail: pay POST /pay: |connection refused"},
	{"dead service", &querytest.Store{Requests: 600, From: .5, Fails: one("POST /pay", 1)}, "cause: pay, POST /pay: |connection refused"},
	{"deadlines", &querytest.Store{Requests: 600, Mix: only(0, 3), Fails: one("quote", .6)}, "GET /quote fail|quote: carrier: context deadline exceeded"},
	{"full pool", nil, "waits: select in 49 spans of GET /order in database/sql.(*DB).conn at main.list"}, // of a real program
}

func one(operation string, n float64) map[string]float64 { return map[string]float64{operation: n} }

// only is a load with requests of the given routes.
func only(routes ...int) func(float64) []float64 {
	weights := make([]float64, 4)
	for _, i := range routes {
		weights[i] = 1
	}
	return func(float64) []float64 { return weights }
}

// made adds entries to a healthy recording.
type made func(x *tracetest.Trace)

func (add made) Record(t testing.TB, seed uint64) *tracetest.Trace {
	x := (&querytest.Store{Requests: 300, From: 1}).Record(t, seed)
	add(x)
	return x
}

const healthyFrom = 1_700_000_000_000_000_000

func leak(x *tracetest.Trace) {
	for i := range uint64(30) {
		e := tracetest.Entry("runtime.metrics", format.AttrTime, healthyFrom+i*1e8, "/sched/goroutines:goroutines", 20+50*i)
		e.Metadata.Target = "runtime/metrics"
		x.Add(e)
	}
}

func hang(x *tracetest.Trace) {
	for i := range byte(8) {
		root := otel.Span{Name: "POST /hang", TraceID: [16]byte{7, i}, SpanID: [8]byte{8, i}, Start: healthyFrom + 1e9}
		x.Add(tracetest.Of(&root, otel.Where{}))
		root.Name, root.SpanID, root.Parent = "reserve", [8]byte{9, i}, root.SpanID
		x.Add(tracetest.Of(&root, otel.Where{}))
	}
}

func retries(x *tracetest.Trace) {
	for i := range byte(24) {
		s := otel.Span{Name: "POST /mail", TraceID: [16]byte{7, i}, SpanID: [8]byte{8, i}, Start: healthyFrom + int64(i)*1e8, Duration: 5e7, Ended: true}
		x.Add(tracetest.Of(&s, otel.Where{}))
		s.Name, s.Parent, s.Duration, s.Status, s.Description = "send", s.SpanID, 9e6, otel.StatusError, "try later"
		for try := range byte(4) {
			if try == 3 {
				s.Status, s.Description = otel.StatusUnset, ""
			}
			s.SpanID, s.Start = [8]byte{9, i, try}, s.Start+1e7
			x.Add(tracetest.Of(&s, otel.Where{}))
		}
	}
}

// TestReader: a reader that knows only the commands of the skill finds the causes. It asks explain, and then runs the
// command in the answer, or else the first look. docs/agents.md has the figures.
func TestReader(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for a long time, and starts no goroutine")
	}
	steps := regexp.MustCompile(`(?m)^entrace (?:explain|top) bad\.et.* --budget \S+$`).FindAllString(skills.Entrace, -1)
	evidence := regexp.MustCompile(`(?m)^ +(entrace grep .*)$`)
	calls, failed, found, most := 0, 0, 0, 0
	for i, x := range wrong {
		dir, bytes := t.TempDir(), 0
		if x.record == nil {
			must(t, os.WriteFile(filepath.Join(dir, "bad.et"), waitingTrace(t, "pool"), 0o600))
		} else {
			x.record.Record(t, 7000+uint64(i)).Save(filepath.Join(dir, "bad.et"))
		}
		ask := func(command string) string {
			cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
			cmd.Dir = dir
			out, err := cmd.Output()
			calls, bytes = calls+1, bytes+len(out)
			if err != nil {
				failed++
				t.Logf("%s: %s: %v", x.kind, command, err)
			}
			return string(out)
		}
		answer := ask(steps[0])
		if m := evidence.FindStringSubmatch(answer); m != nil {
			ask(m[1] + " --limit 3 --tree --budget 3KiB")
		} else {
			ask(steps[1])
		}
		most = max(most, bytes)
		verdict := strings.SplitN(answer, "\n", 4)[2]
		names := true
		for part := range strings.SplitSeq(x.verdict, "|") {
			names = names && strings.Contains(verdict, part)
		}
		if names {
			found++
		} else {
			t.Logf("%s: the verdict is %q, want %q", x.kind, verdict, x.verdict)
		}
	}
	t.Logf("%d of %d found; %d of %d calls failed; at most %d bytes for one", found, len(wrong), failed, calls, most)
	if found < 18 || failed*50 > calls || most > 8<<10 {
		t.Error("that is not good enough")
	}
}
