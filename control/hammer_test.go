package control_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/control/httpapi"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

// TestHammer calls all methods of a control from several goroutines at once, for some time.
func TestHammer(t *testing.T) {
	before := goleak.IgnoreCurrent()
	f := &fake{}
	all := control.Spans | control.Logs | bitA
	stream := func(name string, p control.Set) control.TraceConfig {
		return control.TraceConfig{Name: name, Mode: control.ModeStream, Providers: p, On: append(onAPI(name), control.On{Trigger: control.TriggerHTTP})}
	}
	config := func(id string) *control.Config {
		cfg := base(t.TempDir(), control.Logs, stream("s0", all), stream("s1", all|bitB), stream("s2", bitB), stream("s3", control.Spans), stream("s4", all),
			control.TraceConfig{Name: "shot", Providers: all, Window: time.Second, On: append(onAPI("shot"), control.On{Trigger: control.TriggerHTTP})},
			control.TraceConfig{Name: "hang", Providers: control.Spans, On: []control.On{{Trigger: control.TriggerWatchdog, LongerThan: 50 * time.Millisecond}}, Every: time.Second})
		cfg.ID, cfg.Keep.Files = id, 20
		return cfg
	}
	first := config("c0")
	r := newRig(t, control.Options{Config: first, Providers: []control.Provider{f.provider()}})
	h := httpapi.New(r.ctl, nil)
	configs := []*control.Config{first, config("c1"), config("c2")}
	configs[1].Traces = configs[1].Traces[:3]
	configs[2].Ring.Always = control.Spans | bitB

	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(hosttest.Times(1500, 30_000))*time.Millisecond)
	defer cancel()
	var bad sync.Map
	check := func(err error) {
		if _, denied := errors.AsType[*control.DeniedError](err); err != nil && !denied {
			bad.Store(err.Error(), true)
		}
	}
	ops := []func(rnd *rand.Rand){
		func(rnd *rand.Rand) {
			q := api(fmt.Sprint("s", rnd.IntN(5)))
			q.Manual = rnd.IntN(2) == 0
			q.Timeout = time.Duration(rnd.IntN(20)) * time.Millisecond
			_, err := r.ctl.Start(context.Background(), q)
			check(err)
		},
		func(rnd *rand.Rand) { r.ctl.Stop(api(fmt.Sprint("s", rnd.IntN(5)))) },
		func(rnd *rand.Rand) { check(r.ctl.SetConfig(configs[rnd.IntN(len(configs))])) },
		func(rnd *rand.Rand) { r.ctl.Fire(api([]string{"shot", "s0", "s1", "none"}[rnd.IntN(4)])) },
		func(*rand.Rand) {
			_ = r.ctl.Stats()
			_, _, _ = r.ctl.Running(), r.ctl.Config(), r.ctl.Enabled(all)
		},
		func(rnd *rand.Rand) {
			target := []string{"/snapshot?manual=1", "/start?config=s1&for=3ms", "/start?config=s4", "/"}[rnd.IntN(4)]
			method := http.MethodPost
			if target == "/" {
				method = http.MethodGet
			}
			if w := local(h, method, target); w.Code >= 500 {
				bad.Store(w.Body.String(), true)
			}
			for _, trace := range r.ctl.Running() {
				if rnd.IntN(4) == 0 {
					local(h, http.MethodPost, "/stop/"+trace.ID)
				}
			}
		},
	}
	var load, hammers sync.WaitGroup
	load.Go(func() {
		for ctx.Err() == nil {
			in, span := r.tracer.Start(context.Background(), "work")
			r.log.InfoContext(in, "work")
			time.Sleep(time.Millisecond)
			span.End()
		}
	})
	done := make([]int, len(ops))
	for i := range done {
		hammers.Go(func() {
			rnd := rand.New(rand.NewPCG(17, uint64(i)))
			for ; ctx.Err() == nil; done[i]++ {
				ops[i](rnd)
			}
		})
	}
	hammers.Wait()
	load.Wait()
	t.Logf("calls of each: %v; verdicts: %v", done, r.ctl.Stats().Verdicts)
	if slices.Contains(done, 0) {
		t.Errorf("one of them did nothing: %v", done)
	}
	bad.Range(func(what, _ any) bool {
		t.Error(what)
		return true
	})

	// Then the control must be in its first state.
	must(t, r.ctl.SetConfig(first))
	for i := range 5 {
		r.stop(api(fmt.Sprint("s", i)))
	}
	for _, trace := range r.ctl.Running() { // these were requested over HTTP
		if w := local(h, http.MethodPost, "/stop/"+trace.ID); w.Code != http.StatusOK && w.Code != http.StatusNotFound {
			t.Errorf("stop answers %d: %s", w.Code, w.Body)
		}
	}
	expect.Equal(t, len(r.ctl.Running()), 0, "streams run")
	want := strings.Split((first.Ring.Always | all).String(), ",") // the providers of snapshots are also on
	eventually(t, fmt.Sprintf("%q and no others are on", want), func() bool { return slices.Equal(r.ctl.Stats().On, want) })
	if r.ctl.Enabled(bitB) {
		t.Error("a provider was left on")
	}
	for i := range 4 { // four streams can run again
		r.start(api(fmt.Sprint("s", i)))
	}
	expect.Equal(t, r.verdict(api("s4")), control.VerdictNoSlot, "the verdict on a fifth stream")
	for i := range 4 {
		r.stop(api(fmt.Sprint("s", i)))
	}
	r.end()
	if calls := f.told(); calls[len(calls)-len("stop"):] != "stop" {
		t.Error("the provider was not stopped in the end")
	}
	for _, name := range traceFiles(t, first.Dir) {
		links(t, name)
	}
	onlyTraces(t, first.Dir)
	r.quiet()
	goleak.VerifyNone(t, before)
}
