package control_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/control/provider"
	"github.com/entrace-go/entrace/slogadapter"
)

// child does the work of a child process, which runs no tests.
func child(what, dir string) error {
	if c := children[what]; c != nil {
		return c(dir)
	}
	what, how, _ := strings.Cut(what, " ")
	switch what {
	case "off":
		return off(dir)
	case "record":
		return recordChild(dir)
	case "die":
		return die(dir, how)
	case "traces":
		return manyTraces(dir)
	}
	return fmt.Errorf("there is nothing called %q to do", what)
}

// children has the work of children that only some systems can do, by name.
var children = make(map[string]func(dir string) error)

// A recording is the control of a child process, with its tracer and its logger.
type recording struct {
	ctl    *control.Control
	p      *entrace.Pipeline
	tracer trace.Tracer
	log    *slog.Logger
}

func newRecording(cfg *control.Config) (*recording, error) {
	ctl, err := control.New(&control.Options{
		Config: cfg, Providers: provider.All(), Service: "accept",
		OnError: func(err error) { fmt.Fprintln(os.Stderr, "reported:", err) },
	})
	if err != nil {
		return nil, err
	}
	return recordingOf(ctl)
}

func recordingOf(ctl *control.Control) (*recording, error) {
	p, err := entrace.Setup(context.Background(), entrace.WithControl(ctl), entrace.WithSampler(sdktrace.NeverSample()))
	if err != nil {
		return nil, err
	}
	return &recording{ctl, p, p.TracerProvider().Tracer("accept"), slog.New(slogadapter.New(p.Recorder(), nil))}, nil
}

// snapshots makes n snapshots, one after the other.
func (r *recording) snapshots(n int) error {
	for range n {
		if _, err := r.ctl.Start(context.Background(), api("asked")); err != nil {
			return err
		}
	}
	return nil
}

func (r *recording) end() error {
	return errors.Join(r.p.Shutdown(context.Background()), r.ctl.Shutdown(context.Background()))
}

func persistent(dir string, traces ...control.TraceConfig) *control.Config {
	cfg := base(dir, control.Spans|control.Logs, traces...)
	cfg.Ring.Bytes, cfg.Ring.Persist = 32<<20, true
	return cfg
}

// The number of records of a child. The ring has room for all of them, so it evicts none.
const (
	childGoroutines = 2
	childRecords    = 30_000 // by each goroutine
)

// recordChild records until it is killed. After each record, it prints a line to standard output:
//
//	S G N // span N of goroutine G has begun
//	L G N // the span has a log record
//	E G N // the span has ended
func recordChild(dir string) error {
	r, err := newRecording(persistent(dir))
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	for g := range childGoroutines {
		all.Go(func() {
			for n := range childRecords {
				ctx, span := r.tracer.Start(context.Background(), "work", trace.WithAttributes(attribute.Int("g", g), attribute.Int("n", n)))
				fmt.Printf("S %d %d\n", g, n)
				r.log.InfoContext(ctx, "load", "g", g, "n", n)
				fmt.Printf("L %d %d\n", g, n)
				if n%10 == 3 {
					continue // the span never ends
				}
				span.End()
				fmt.Printf("E %d %d\n", g, n)
			}
		})
	}
	all.Wait()
	time.Sleep(time.Hour)
	return errors.New("nobody came to kill it")
}

func nobody() *recording { return nil }

// die records and then dies in the given way.
func die(dir, how string) error {
	r, err := newRecording(persistent(dir, control.TraceConfig{ // this trace makes spans set labels on goroutines
		Name: "shot", Providers: control.Spans | control.Goroutines, On: onAPI("shot"),
	}))
	if err != nil {
		return err
	}
	_, before := r.tracer.Start(context.Background(), "one that ended")
	before.End()
	ctx, _ := r.tracer.Start(context.Background(), "the last one")
	for n := range 100 {
		r.log.InfoContext(ctx, "load", "g", 0, "n", n)
	}
	switch how {
	case "nil":
		go func() {
			nobody().log.Info("there is none")
		}()
	case "map":
		runtime.GOMAXPROCS(4) // the goroutines must use the map at the same time
		m := make(map[int]int)
		for range 8 {
			go func() {
				for i := 0; ; i++ {
					m[i%1_000_000] = i
				}
			}()
		}
	case "exit":
		os.Exit(7)
	case "panic":
		defer r.ctl.CapturePanic()
		panic("on purpose")
	case "shutdown":
		defer func() { _ = r.ctl.Shutdown(context.Background()) }()
		panic("on purpose")
	default:
		fmt.Println("ready")
	}
	time.Sleep(2 * patience)
	return errors.New("it is alive")
}

// manyTraces makes traces until it is killed.
func manyTraces(dir string) error {
	r, err := newRecording(persistent(dir,
		control.TraceConfig{Name: "stream", Mode: control.ModeStream, Providers: control.Logs | control.Spans, On: onAPI("stream*")},
		control.TraceConfig{Name: "shot", Providers: control.Logs | control.Spans, On: onAPI("shot")}))
	if err != nil {
		return err
	}
	var n atomic.Int64
	for g := range 2 {
		go func() {
			for {
				ctx, span := r.tracer.Start(context.Background(), "work")
				r.log.InfoContext(ctx, "load", "n", n.Add(1))
				span.End()
				time.Sleep(20 * time.Microsecond)
			}
		}()
		go func() {
			for {
				key := fmt.Sprint("stream ", g)
				if _, err := r.ctl.Start(context.Background(), api(key)); err != nil {
					fmt.Fprintln(os.Stderr, err)
				}
				if _, err := r.ctl.Start(context.Background(), api("shot")); err != nil {
					fmt.Fprintln(os.Stderr, err)
				}
				fmt.Println("made")
				r.ctl.Stop(api(key))
			}
		}()
	}
	time.Sleep(time.Hour)
	return errors.New("nobody came to kill it")
}
