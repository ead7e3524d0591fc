//go:build conformance

package conformance_test

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/control/provider"
	"github.com/entrace-go/entrace/control/tracedir"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/slogadapter"
)

const flightVariable = "ENTRACE_FLIGHT"

// flight records with a flight recorder, and requests a snapshot and a stream.
func flight(t *testing.T, dir string, v format.Version) {
	t.Helper()
	ctx := context.Background()
	all := control.Process<<1 - 1 // all providers
	ctl, err := control.New(&control.Options{
		Version: v, Providers: provider.All(), Service: "flight",
		Config: &control.Config{
			ID: "conformance", Dir: dir,
			Ring: control.RingConfig{Bytes: 4 << 20, Persist: true, Always: control.Spans | control.Logs | control.Process | control.Sched},
			Traces: []control.TraceConfig{
				{Name: "shot", Providers: all &^ control.CPUProfile, On: []control.On{{Trigger: control.TriggerAPI, Key: "shot"}}},
				{Name: "deep", Mode: control.ModeStream, Providers: all, On: []control.On{{Trigger: control.TriggerAPI, Key: "deep"}}},
			},
		},
	})
	must(t, err)
	p, err := entrace.Setup(ctx, entrace.WithControl(ctl), entrace.WithoutGlobals())
	must(t, err)
	log := slog.New(slogadapter.New(p.Recorder(), nil))
	tracer := p.TracerProvider().Tracer("flight")
	stream, err := ctl.Start(ctx, control.Request{Trigger: control.TriggerAPI, Key: "deep", Reason: "a \"reason\"", Manual: true})
	must(t, err)
	for range 50 {
		ctx, span := tracer.Start(ctx, "request", trace.WithAttributes(attribute.StringSlice("tags", []string{"a", "b"})))
		_, child := tracer.Start(ctx, "work")
		log.WarnContext(ctx, "said", "n", 1)
		child.AddEvent("happened")
		for begin := time.Now(); time.Since(begin) < 2*time.Millisecond; {
			_ = strings.Repeat("x", 100)
		}
		child.End()
		span.End()
	}
	_, open := tracer.Start(ctx, "open")
	defer open.End()
	must(t, expect.Err(ctl.Start(ctx, control.Request{Trigger: control.TriggerAPI, Key: "shot"})))
	if os.Getenv(flightVariable) != "" {
		select {} // wait until the process is killed
	}
	ctl.Stop(stream.Request)
	<-stream.Done()
	expect.OK(t, p.Shutdown(ctx))
	expect.OK(t, ctl.Shutdown(ctx))
}

func TestFlightChild(t *testing.T) {
	if dir := os.Getenv(flightVariable); dir != "" {
		v, err := format.ParseVersion(os.Getenv(flightVariable + "_VERSION"))
		must(t, err)
		flight(t, dir, v)
	}
}

// TestFlightIsReadable reads the files of a flight recorder with the crate: a snapshot, a stream, and the trace
// that is made from the ring of a killed process.
func TestFlightIsReadable(t *testing.T) {
	for _, v := range []format.Version{format.V1, format.V2} {
		dir := hosttest.Path(t, "traces")
		flight(t, dir, v)
		killed := hosttest.Path(t, "traces")
		cmd := exec.Command(os.Args[0], "-test.run=^TestFlightChild$")
		cmd.Env = append(os.Environ(), flightVariable+"="+killed, flightVariable+"_VERSION="+number(v))
		must(t, cmd.Start())
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			if list, _ := filepath.Glob(filepath.Join(killed, "*-shot.et")); len(list) > 0 {
				break
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		rings, streams := 0, 0
		err := tracedir.Recover(t.Context(), killed, func(r *tracedir.Result, err error) {
			switch {
			case err != nil:
				t.Errorf("recovered is %+v, %v", r, err)
			case r.Ring:
				rings++
			default:
				streams++
			}
		})
		if err != nil || rings != 1 || streams != 1 {
			t.Fatalf("recovered are %d rings and %d streams, %v", rings, streams, err)
		}
		for _, dir := range []string{dir, killed} {
			list, _ := filepath.Glob(filepath.Join(dir, "*.et"))
			if want := map[string]int{"shot": 1, "deep": 1}; len(list) < len(want) {
				t.Errorf("%s has only %q", dir, list)
			}
			for _, name := range list {
				compare(t, v, name)
			}
		}
	}
}
