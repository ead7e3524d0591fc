// Command waiting serves requests that are slow for reasons that spans do not show. It also records Go's execution
// trace, which shows these reasons:
//
//	go run ./examples/waiting pool      # 50 requests share two connections to a database
//	go run ./examples/waiting busy      # one processor, and a loop that keeps it busy
//	go run ./examples/waiting cpu       # requests that compute, and a CPU profile
//
// Each command prints the name of a file. Examine it with entrace top, entrace critical and entrace tree --states.
package main

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/control"
)

var tracer = otel.Tracer("example.com/waiting")

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "waiting:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	loads := map[string]func(ctx context.Context) error{"pool": pool, "busy": busy, "cpu": cpu}
	if len(args) != 1 || loads[args[0]] == nil {
		return errors.New("expected one argument: pool, busy or cpu")
	}
	// For a service, set these variables in its environment.
	for name, value := range map[string]string{"CONTROL_EXEC_TRACE": "1", "CONTROL_DIR": "waiting-traces"} {
		if err := os.Setenv("OTEL_EXPORTER_ENTRACE_"+name, value); err != nil {
			return err
		}
	}
	ctx := context.Background()
	p, err := entrace.Setup(ctx)
	if err != nil {
		return err
	}
	path, err := record(ctx, p.Control(), args[0], loads[args[0]])
	err = errors.Join(err, p.Shutdown(ctx))
	if err != nil {
		return err
	}
	fmt.Println(path())
	return nil
}

// record runs a load and records a trace of it. The returned function returns the path of the trace; call it after
// the shutdown. For the load cpu, the trace is a stream that begins before the load, because a CPU profile covers
// only the time while it is on. For other loads, it is a snapshot that is made after the load.
func record(ctx context.Context, c *control.Control, name string, load func(ctx context.Context) error) (path func() string, err error) {
	take := control.Request{Trigger: control.TriggerAPI, Key: "snapshot", Reason: "done"}
	var t *control.Trace
	if name == "cpu" {
		take.Key = "stream"
		t, err = c.Start(ctx, take)
	}
	if err == nil {
		err = load(ctx)
	}
	if err == nil && t == nil {
		t, err = c.Start(ctx, take)
	}
	if err != nil {
		return nil, err
	}
	return t.Path, nil
}

// in runs fn in a span.
func in(ctx context.Context, name string, fn func(ctx context.Context) error) error {
	ctx, span := tracer.Start(ctx, name)
	defer span.End()
	return fn(ctx)
}

// pool sends 50 requests at once, which share two connections. Before them, the request GET /report occupies one
// of the connections for a long time.
func pool(ctx context.Context) error {
	sql.Register("slow", slow{})
	db, err := sql.Open("slow", "")
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(2)
	var requests sync.WaitGroup
	errs := make([]error, 51)
	requests.Go(func() {
		errs[50] = in(ctx, "GET /report", func(ctx context.Context) error { return list(ctx, db, "SELECT * FROM sales") })
	})
	time.Sleep(5 * time.Millisecond)
	for i := range 50 {
		requests.Go(func() {
			errs[i] = in(ctx, "GET /order", func(ctx context.Context) error { return list(ctx, db, "SELECT name FROM orders") })
		})
	}
	requests.Wait()
	return errors.Join(errs...)
}

// list runs a query.
func list(ctx context.Context, db *sql.DB, query string) error {
	_, err := db.ExecContext(ctx, query)
	return err
}

// busy serves requests on a single processor, while another goroutine computes on it.
func busy(ctx context.Context) error {
	runtime.GOMAXPROCS(1)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for n := 0; ctx.Err() == nil; n++ {
			sha256.Sum256([]byte{byte(n)})
		}
	}()
	for range 10 {
		err := in(ctx, "GET /hello", func(context.Context) error {
			_, err := fmt.Fprintf(io.Discard, "%x\n", sha256.Sum256(make([]byte, 32<<20)))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// slow is a database driver whose queries take 20 ms. The query of GET /report takes ten times as long.
type slow struct{}

func (slow) Open(string) (driver.Conn, error) { return conn{}, nil }

// A conn runs queries. Package sql calls no other method of it.
type conn struct{ driver.Conn }

func (conn) Close() error { return nil }

func (conn) ExecContext(ctx context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	takes := 20 * time.Millisecond
	if query == "SELECT * FROM sales" {
		takes *= 10
	}
	time.Sleep(takes)
	return driver.ResultNoRows, ctx.Err()
}

// cpu serves requests that compute.
func cpu(ctx context.Context) error {
	for range 20 {
		err := in(ctx, "GET /thumbnail", func(ctx context.Context) error {
			return in(ctx, "scale", func(context.Context) error {
				decode()
				scale()
				return nil
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

//go:noinline
func decode() { hash(5) }

//go:noinline
func scale() { hash(20) }

// hash keeps the processor busy for some milliseconds per megabyte.
func hash(megabytes int) {
	b := make([]byte, 1<<20)
	for range megabytes {
		sha512.Sum512(b)
	}
}
