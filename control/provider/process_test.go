package provider

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

func TestProcessSample(t *testing.T) {
	r, p := &record{}, newProcessProvider()
	must(t, p.start(r.session(control.Process, map[string]string{"process.interval": "1h"})))
	// The CPU times may have steps of 10 ms and more.
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		if u := newSystem("/").usage(); !u[userTime].ok || u[userTime].n-p.tick.(*processTick).before[userTime].n > 5e7 {
			break
		}
	}
	must(t, p.stop())
	e := r.named("process")[0]
	if got := e.u64(t, "go.memory.used:bytes"); got < 1<<20 || got > 1<<40 {
		t.Errorf("the runtime has %d bytes", got)
	}
	if runtime.GOOS != "linux" {
		t.Skip("the rest is of Linux")
	}
	cpu, _ := e.Attribute("process.cpu.time.user:seconds delta")
	if got := cpu.Float(); got <= 0 || got > 1e3 {
		t.Errorf("%v s of processor time", got)
	}
	for name, most := range map[string]uint64{
		"process.memory.usage:bytes": 1 << 40, "process.memory.virtual:bytes": 1 << 48, "process.memory.peak:bytes": 1 << 40, "process.thread.count:threads": 1e5,
	} {
		if got := e.u64(t, name); got == 0 || got > most {
			t.Errorf("%s is %d", name, got)
		}
	}
	for _, name := range []string{"process.paging.faults.major:faults delta", "process.context_switches.involuntary:switches delta"} {
		if got := e.u64(t, name); got > 1e9 {
			t.Errorf("%s is %d", name, got)
		}
	}
}

// TestStatisticsAreDocumented checks that doc.go has the names of all statistics. Of twins, such as user
// and system time, it has one.
func TestStatisticsAreDocumented(t *testing.T) {
	doc := tracetest.ReadFile(t, "doc.go")
	twin := strings.NewReplacer("time.system", "time.user", "faults.minor", "faults.major", ".involuntary", ".voluntary", "io.write", "io.read")
	for _, a := range statAttributes {
		if !strings.Contains(string(doc), "\t  "+twin.Replace(a.name)+" ") {
			t.Errorf("doc.go has no %s", a.name)
		}
	}
}
