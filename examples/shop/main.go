// Command shop is a shop of three services, each a process of its own that records itself. It sends requests to itself
// for some seconds. After a while a service begins to fail, and "entrace explain" finds the cause:
//
//	go run ./examples/shop -dir demo
//	go run ./cmd/entrace explain demo
//
// The files are: shop.go, which takes the requests of customers; catalog.go, which has the prices; payment.go, which
// charges cards through another company.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/exporter"
)

var (
	tracer = otel.Tracer("example.com/shop")
	client = &http.Client{Transport: otelhttp.NewTransport(http.DefaultTransport), Timeout: 5 * time.Second}
)

func main() {
	dir := flag.String("dir", "demo", "put the traces into `DIR`")
	lasts := flag.Duration("for", 10*time.Second, "send requests for this `TIME`")
	serves := flag.String("serve", "", "be this `SERVICE`, until standard input ends")
	flag.Parse()
	var err error
	if *serves == "" {
		err = run(*dir, *lasts)
	} else {
		err = serve(*serves, *dir, flag.Args())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "shop:", err)
		os.Exit(1)
	}
}

// run starts the services, sends requests to the first one, and ends the services.
func run(dir string, lasts time.Duration) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var processes []*process
	defer func() {
		for _, p := range processes {
			err = errors.Join(err, p.end())
		}
	}()
	var addresses []string
	for _, service := range []string{"payment", "catalog", "shop"} {
		p, address, err := start(service, dir, addresses)
		if err != nil {
			return fmt.Errorf("%s: %w", service, err)
		}
		processes, addresses = append(processes, p), append(addresses, address)
	}
	shop := addresses[len(addresses)-1]
	until := time.Now().Add(lasts)
	var customers sync.WaitGroup
	tenants := []string{"acme", "globex", "initech"}
	for customer := range 6 {
		customers.Go(func() {
			for n := customer; time.Now().Before(until); n++ {
				path := fmt.Sprintf("/cart?user=u%d", n)
				if n%3 == 0 {
					path = "/buy?tenant=" + tenants[n/3%len(tenants)]
				}
				if r, err := http.Get("http://" + shop + path); err == nil {
					_, _ = io.Copy(io.Discard, r.Body)
					_ = r.Body.Close()
				}
				time.Sleep(time.Duration(30+7*customer) * time.Millisecond)
			}
		})
	}
	customers.Wait()
	return nil
}

// A process is a service that runs.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer // the service ends when this is closed, which works on every system
}

// start starts a service, and returns the address on which it listens.
func start(service, dir string, calls []string) (*process, string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	cmd := exec.Command(self, append([]string{"-serve", service, "-dir", dir}, calls...)...) //nolint:gosec // this program
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, "", err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := cmd.Start(); err != nil {
		return nil, "", err
	}
	var address string
	_, err = fmt.Fscanln(out, &address)
	return &process{cmd, stdin}, address, err
}

func (p *process) end() error { return errors.Join(p.stdin.Close(), p.cmd.Wait()) }

// serve is the main function of a service. It records itself, and prints its address.
func serve(service, dir string, calls []string) error {
	ctx := context.Background()
	p, err := entrace.Setup(ctx, exporter.WithPath(filepath.Join(dir, service+".et")),
		entrace.WithResource(resource.NewSchemaless(attribute.String("service.name", service))))
	if err != nil {
		return err
	}
	slog.SetDefault(slog.New(p.LogHandler(slog.DiscardHandler))) // to the recorder alone
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &http.Server{Handler: otelhttp.NewHandler(handler(service, calls), "request"), ReadHeaderTimeout: time.Second}
	go func() { _ = s.Serve(l) }()
	fmt.Println(l.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return errors.Join(s.Shutdown(ctx), p.Shutdown(ctx))
}

func handler(service string, calls []string) http.Handler {
	switch service {
	case "payment":
		return payment()
	case "catalog":
		return catalog()
	}
	return shop(calls[0], calls[1])
}
