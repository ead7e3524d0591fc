package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/internal/otel/listener"
	"github.com/entrace-go/entrace/internal/otel/receive"
	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/internal/text/quantity"
	"github.com/entrace-go/entrace/query"
)

// otlpFlags are the flags of receive about OTLP.
type otlpFlags struct {
	on, console bool
	http, grpc  string
	until       string
	hosts       []string
	redact      string
	idle        time.Duration
	request     quantity.Bytes
	keep        quantity.Bytes
}

func (f *otlpFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.on, "otlp", false, "receive OTLP as well: a file for each service, with the same limits")
	flags.StringVar(&f.http, "otlp-http", "127.0.0.1:4318", "where to listen for OTLP over HTTP; if empty, receive does not listen")
	flags.StringVar(&f.grpc, "otlp-grpc", "127.0.0.1:4317", "where to listen for OTLP over gRPC; if empty, receive does not listen")
	flags.DurationVar(&f.idle, "idle", 5*time.Minute, "finish the file of a service that has sent nothing by OTLP for this long")
	flags.Var(&f.request, "max-request", "size of the largest request, decompressed")
	flags.Var(&f.keep, "keep-bytes", "remove the oldest finished files of OTLP if their total size is larger than this; 0 keeps all")
	flags.BoolVar(&f.console, "console", false, "print the log records, events and spans that arrive by OTLP, as tail -f does")
	flags.StringSliceVar(&f.hosts, "allow-host", nil, "another name of this machine that HTTP requests may use, such as host.docker.internal")
	redactFlag(flags, &f.redact, "replace secrets in records that arrive by OTLP")
	flags.StringVar(&f.until, "until", "", "end when this `QUERY` selects a record that arrived by OTLP")
}

// followGrace is the maximum time that serveOTLP waits at the end for lines of --console that are not printed yet.
const followGrace = 5 * time.Second

// errMatched ends the receiver when the query of --until has selected something.
var errMatched = errors.New("the query of --until has selected a record")

// serveOTLP receives OTLP until ctx is done or --until is fulfilled. Then it finishes the files.
func (f *receiveFlags) serveOTLP(ctx context.Context, c *console, token string, config *tls.Config) error {
	if f.otlp.http == "" && f.otlp.grpc == "" {
		return usagef("--otlp has no address: set --otlp-http or --otlp-grpc")
	}
	if f.otlp.until != "" {
		if _, err := query.Parse(f.otlp.until); err != nil {
			return usagef("--until: %w", err)
		}
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	follow, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var following sync.WaitGroup
	var told repeats
	collectAt(50) // each request allocates memory, and little of it stays in use
	policy, err := policyOf(f.otlp.redact)
	if err != nil {
		return err
	}
	files, err := receive.ToFolder(receive.FolderOptions{
		Dir: f.dir, Redact: policy, Idle: f.otlp.idle, MaxBytes: int64(f.maxBytes), MaxFiles: f.maxFiles, KeepBytes: int64(f.otlp.keep),
		OnBegun: func(path, service string) {
			c.say("%s: from %s", path, cmp.Or(service, "a service without a name"))
			if f.otlp.console {
				following.Go(func() { followReceived(follow, c, path, "", c.out) })
			}
			if f.otlp.until != "" {
				following.Go(func() {
					followReceived(follow, c, path, f.otlp.until, writerFunc(func() { end(errMatched) }))
				})
			}
		},
		OnDone: func(path string, entries uint64, size int64, err error) {
			if entries > 0 {
				fmt.Fprintf(c.out, "%s\t%d entries\t%d bytes\n", show.Safe(path), entries, size)
			}
			c.tellOf(path, err)
		},
		OnError: func(path string, err error) {
			tellNew(c, &told, filepath.Dir(path)+fmt.Sprint(err), fmt.Errorf("%s: %w", path, err))
		},
	})
	if err != nil {
		return err
	}
	var serving sync.WaitGroup
	var failed sync.Once
	var first error
	for _, x := range []struct{ protocol, address string }{{"http", f.otlp.http}, {"grpc", f.otlp.grpc}} {
		if x.address == "" {
			continue
		}
		l, err := listenOTLP(x.address, token, config)
		if err != nil {
			failed.Do(func() { first = fmt.Errorf("--otlp-%s: %w", x.protocol, err) })
			end(nil)
			break
		}
		scheme := x.protocol
		if config != nil {
			scheme += "s"
		}
		c.say("listening for OTLP at %s", scheme+"://"+l.Addr().String())
		s := receive.NewServer(files, receive.Options{
			MaxRequest: int64(f.otlp.request), Token: token, TLS: config, MaxConnections: f.connections, MaxPerAddress: f.perAddress,
			Local: listener.Loopback(l.Addr()), Hosts: f.otlp.hosts, Tell: func(text string) { tellNew(c, &told, text, errors.New(text)) },
		})
		serving.Go(func() {
			if err := s.Serve(ctx, l); err != nil {
				failed.Do(func() { first = err })
				end(nil)
			}
		})
	}
	serving.Wait()
	files.Close(context.WithoutCancel(ctx))
	// A follower would wait forever for a file that --keep-bytes removed before the follower opened it.
	late := time.AfterFunc(followGrace, stop)
	defer late.Stop()
	following.Wait() // each follower ends with its file
	return first
}

// followReceived prints the entries that are written to a file. If q is not "", it prints only the rows
// that q selects.
func followReceived(ctx context.Context, c *console, path, q string, out io.Writer) {
	o := tailOptions{follow: true, lines: -1, rowFlags: rowFlags{time: timeLocal, selection: selection{query: q}}}
	err := tailFile(ctx, c.to(out), path, o)
	if ctx.Err() == nil {
		c.tellOf(path, err)
	}
}

// listenOTLP listens on an address. If neither a token nor client certificates are required, only this machine may
// reach the address.
func listenOTLP(address, token string, config *tls.Config) (net.Listener, error) {
	l, err := net.Listen("tcp", address) //nolint:noctx // it does not wait
	if err != nil {
		return nil, err
	}
	if err := listener.Check(l.Addr(), token, config); err != nil {
		return nil, errors.Join(usagef("%s: %w", address, err), l.Close())
	}
	return l, nil
}

// repeats remembers the errors that were printed recently.
type repeats struct {
	mu   sync.Mutex
	told map[string]time.Time
}

// isNew reports whether no error with the given key was printed within repeatAfter.
func (r *repeats) isNew(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.told[key]) < repeatAfter {
		return false
	}
	if r.told == nil || len(r.told) > maxTold {
		r.told = make(map[string]time.Time)
	}
	r.told[key] = time.Now()
	return true
}

// addresses matches the parts of an error text that change each time the same client causes the error.
var addresses = regexp.MustCompile(`:\d+\b|"[^"]*"`)

// tellNew prints err, unless an error with the same key was printed within repeatAfter.
func tellNew(c *console, r *repeats, key string, err error) {
	if r.isNew(addresses.ReplaceAllString(key, "")) {
		c.tell(err)
	}
}

// A writerFunc is a writer that calls a func for every Write and drops the bytes.
type writerFunc func()

func (f writerFunc) Write(b []byte) (int, error) {
	f()
	return len(b), nil
}
