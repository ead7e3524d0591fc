package control_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/slogadapter"
)

// exampleConfig returns a configuration with a new folder, and with a snapshot and a stream that the
// application can request.
func exampleConfig() *control.Config {
	dir, err := os.MkdirTemp("", "traces")
	if err != nil {
		panic(err)
	}
	cfg := control.DefaultConfig()
	cfg.ID, cfg.Dir, cfg.Ring.Persist = "example", dir, false
	cfg.Traces = []control.TraceConfig{
		{Name: "import", Providers: control.Spans | control.Logs, On: []control.On{{Trigger: control.TriggerAPI, Key: "import*"}}},
		{Name: "deep", Mode: control.ModeStream, Providers: control.Logs, On: []control.On{{Trigger: control.TriggerAPI, Key: "deep"}}},
	}
	return cfg
}

// A snapshot has the records from before the request.
func ExampleControl_Start() {
	cfg := exampleConfig()
	defer os.RemoveAll(cfg.Dir)
	ctl, err := control.New(&control.Options{Config: cfg})
	if err != nil {
		panic(err)
	}
	defer ctl.Shutdown(context.Background())
	log := slog.New(slogadapter.New(ctl.Recorder(), nil))

	log.Info("reading orders.csv")
	t, err := ctl.Start(context.Background(), control.Request{Trigger: control.TriggerAPI, Key: "import of orders", Reason: "it is slow"})
	if err != nil {
		panic(err)
	}
	f, err := format.Open(t.Path(), nil)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	_ = f.Walk(0, func(_ uint32, e *format.TraceEntry) error {
		if e.Message.Valid {
			fmt.Println(e.Message.Value)
		}
		return nil
	})
	// Output: reading orders.csv
}

// A stream has the records from the request until it is stopped.
func ExampleControl_Stop() {
	cfg := exampleConfig()
	defer os.RemoveAll(cfg.Dir)
	ctl, err := control.New(&control.Options{Config: cfg})
	if err != nil {
		panic(err)
	}
	defer ctl.Shutdown(context.Background())

	deep := control.Request{Trigger: control.TriggerAPI, Key: "deep"}
	t, err := ctl.Start(context.Background(), deep)
	if err != nil {
		panic(err)
	}
	fmt.Println("stopped:", ctl.Stop(deep))
	<-t.Done() // the file is finished
	fmt.Println(t.Verdict(), strings.HasSuffix(filepath.Base(t.Path()), "-deep.et"))
	// Output:
	// stopped: true
	// started true
}

// If a request does not become a trace, the error has a verdict that says why.
func ExampleDeniedError() {
	cfg := exampleConfig()
	defer os.RemoveAll(cfg.Dir)
	cfg.Traces[0].Every = time.Hour
	ctl, err := control.New(&control.Options{Config: cfg})
	if err != nil {
		panic(err)
	}
	defer ctl.Shutdown(context.Background())
	for _, key := range []string{"import", "import", "export"} {
		_, err := ctl.Start(context.Background(), control.Request{Trigger: control.TriggerAPI, Key: key})
		fmt.Println(err)
	}
	// Output:
	// <nil>
	// no trace for api "import": rate_limited (import)
	// no trace for api "export": no_config
}
