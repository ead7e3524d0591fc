//go:build conformance && unix

package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/exporter"
)

// A golden is a program with a fault. A part of the fault is chosen at random.
type golden struct {
	// run is the program. It calls says with the lines that explain must print first.
	run func(l *lab)
	// env are environment variables in addition to the name of the file. If baseline is true, the program also
	// runs without its fault, for comparison.
	env      []string
	baseline bool
}

// first matches the beginning of the first cause.
const first = `(?m)^1\. lab  `

var goldens = map[string]golden{
	"a slow tenant of 200":               {run: slowTenant},
	"a connection that is not put back":  {run: lostConnection},
	"a flag that doubles one error":      {run: doubledError, baseline: true},
	"a retry storm":                      {run: retryStorm},
	"a lock between two handlers":        {run: sharedLock},
	"a slow service downstream":          {run: downstream},
	"an operation that is no longer run": {run: vanished},
	"a release that is 20 % slower":      {run: slower, baseline: true},
	"errors of few requests":             {run: fewRequests},
	"collections":                        {run: collections, env: []string{"_CONTROL=stream"}},
	"goroutines that leak":               {run: goroutines, env: []string{"_CONTROL=ring"}},
	"memory that grows":                  {run: memory, env: []string{"_CONTROL=stream"}},
	"a hang":                             {run: hang, env: []string{"_CONTROL_ON_HANG=500ms"}},
	"a panic":                            {run: panics},
	"a program that is killed":           {run: killed},
}

// goldensRight is the number of goldens that explain must get right.
const goldensRight = 11

// TestGoldens makes each fault with random, secret parameters. The output of explain must name them.
func TestGoldens(t *testing.T) {
	dir := t.TempDir()
	command := filepath.Join(dir, "entrace")
	goIn(t, ".", "build", "-o", command, "./cmd/entrace")
	exe, err := os.Executable()
	must(t, err)
	var mu sync.Mutex
	var wg sync.WaitGroup
	right, turns := 0, make(chan struct{}, 4)
	for name, g := range goldens {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			dir := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
			says, seed := filepath.Join(dir, "says"), fmt.Sprint(rand.Uint64()) // #nosec G404 -- no secret
			program := func(file, fault string) string {
				file = filepath.Join(dir, file)
				c := exec.CommandContext(t.Context(), exe, "-test.run=^TestGoldenProgram$")
				c.Dir = dir
				c.Env = append(os.Environ(), "GOLDEN="+name, "GOLDEN_SEED="+seed, "GOLDEN_FAULT="+fault, "GOLDEN_SAYS="+says, "OTEL_SERVICE_NAME=lab", "OTEL_EXPORTER_ENTRACE_PATH="+file)
				for _, e := range g.env {
					c.Env = append(c.Env, "OTEL_EXPORTER_ENTRACE"+e)
					file = filepath.Join(dir, "lab-traces")
				}
				out, err := c.CombinedOutput()
				t.Logf("%s: %v %.300s", name, err, out)
				return file
			}
			must(t, os.MkdirAll(dir, 0o700))
			args := []string{"explain", program("fault.et", "1")}
			if g.baseline {
				args = append(args, "--against", program("healthy.et", ""))
			}
			if more, _ := filepath.Glob(filepath.Join(dir, "stock.*")); more != nil {
				args = append(args, more...)
			}
			cmd := exec.CommandContext(t.Context(), command, args...)
			cmd.Env = append(os.Environ(), "COLUMNS=200")
			out, err := cmd.CombinedOutput()
			want, werr := os.ReadFile(says)
			must(t, werr)
			ok := err == nil
			for line := range strings.SplitSeq(strings.TrimSpace(string(want)), "\n") {
				ok = ok && regexp.MustCompile(line).Match(out)
			}
			mu.Lock()
			defer mu.Unlock()
			if ok {
				right++
			}
			t.Logf("%s: %t, %v, want %q\n%s", name, ok, err, want, out)
		})
	}
	wg.Wait()
	t.Logf("%d of %d are right", right, len(goldens))
	if right < goldensRight {
		t.Errorf("%d of %d faults are found, want %d", right, len(goldens), goldensRight)
	}
}

// A lab is the service of a golden.
type lab struct {
	t      *testing.T
	secret *rand.Rand
	fault  bool
	tracer trace.Tracer
}

// TestGoldenProgram runs the program of a golden, in its own process.
func TestGoldenProgram(t *testing.T) {
	g, ok := goldens[os.Getenv("GOLDEN")]
	if !ok {
		return
	}
	seed := uint64(0)
	_, err := fmt.Sscan(os.Getenv("GOLDEN_SEED"), &seed)
	must(t, err)
	p, err := entrace.Setup(context.Background(), entrace.WithSlogDefault())
	must(t, err)
	g.run(&lab{t, rand.New(rand.NewPCG(seed, 1)), os.Getenv("GOLDEN_FAULT") != "", otel.Tracer("lab")}) // #nosec G404 -- it must be reproducible
	must(t, p.Shutdown(context.Background()))
}

// says writes what explain must print, one regular expression per line.
func (l *lab) says(lines ...string) {
	must(l.t, os.WriteFile(os.Getenv("GOLDEN_SAYS"), []byte(strings.Join(lines, "\n")), 0o600))
}

var paths = []string{"search", "list", "report", "export", "invoice", "profile"}

func (l *lab) path() string { return paths[l.secret.IntN(len(paths))] }

func anyPath() string { return paths[rand.IntN(len(paths))] } // #nosec G404 -- load

func between(low, high float64) time.Duration {
	return time.Duration((low + rand.Float64()*(high-low)) * float64(time.Millisecond)) // #nosec G404 -- load
}

// request serves a request with fn.
func (l *lab) request(path string, fn func(ctx context.Context) error, attrs ...attribute.KeyValue) {
	ctx, s := l.tracer.Start(context.Background(), "GET /"+path, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attrs...))
	defer s.End()
	if err := fn(ctx); err != nil {
		s.SetStatus(codes.Error, err.Error())
		slog.ErrorContext(ctx, "request failed", "err", err)
		return
	}
	slog.InfoContext(ctx, "served")
}

// step is a part of a request, which lasts for d.
func (l *lab) step(ctx context.Context, name string, d time.Duration) {
	_, s := l.tracer.Start(ctx, name)
	defer s.End()
	time.Sleep(d)
}

// load calls fn n times, from a number of goroutines at once.
func load(workers, n int, fn func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range workers {
		wg.Go(func() {
			for i := range next {
				fn(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

func slowTenant(l *lab) {
	tenant, path, table := fmt.Sprintf("t%03d", l.secret.IntN(200)), l.path(), []string{"users", "items", "settings"}[l.secret.IntN(3)]
	l.says(first+"SELECT "+table, `tenant\.id = "`+tenant)
	load(32, 12_000, func(int) {
		of, at := fmt.Sprintf("t%03d", rand.IntN(200)), anyPath() // #nosec G404 -- load
		l.request(at, func(ctx context.Context) error {
			for _, name := range []string{"users", "items", "settings"} {
				d := between(.3, 2)
				if of == tenant && at == path && name == table {
					d = between(60, 140)
				}
				l.step(ctx, "SELECT "+name, d)
			}
			if rand.IntN(50) == 0 { // #nosec G404 -- slow for everybody now and then
				l.step(ctx, "render", between(20, 60))
			}
			return nil
		}, attribute.String("tenant.id", of), attribute.String("region", []string{"eu", "us", "ap"}[rand.IntN(3)])) // #nosec G404 -- load
	})
}

func lostConnection(l *lab) {
	leaks, user := l.path(), fmt.Sprintf("u%02d", l.secret.IntN(40))
	l.says(first + `(db\.acquire|GET /` + leaks + ")")
	free := make(chan struct{}, 3+l.secret.IntN(3))
	end := time.Now().Add(8 * time.Second)
	load(8, 4000, func(int) {
		if time.Now().After(end) {
			return
		}
		of, at := fmt.Sprintf("u%02d", rand.IntN(40)), anyPath() // #nosec G404 -- load
		l.request(at, func(ctx context.Context) error {
			_, acquire := l.tracer.Start(ctx, "db.acquire")
			select {
			case free <- struct{}{}:
				acquire.End()
			case <-time.After(500 * time.Millisecond):
				acquire.End()
				return context.DeadlineExceeded
			}
			l.step(ctx, "SELECT t", between(1, 4))
			if at == leaks && of == user {
				return nil
			}
			l.step(ctx, "COMMIT", between(.1, .3))
			<-free
			return nil
		}, attribute.String("user", of))
	})
}

func doubledError(l *lab) {
	kinds := []string{"card declined", "address unknown", "out of stock", "price changed", "coupon expired", "carrier unavailable", "duplicate order"}
	flags := []string{"new_checkout", "fast_search", "async_mail", "beta_prices", "dark_mode"}
	kind, flag := kinds[l.secret.IntN(len(kinds))], flags[l.secret.IntN(len(flags))]
	l.says(`(?m)^1\. lab`, kind, `feature\.`+flag+" = true")
	load(16, 8000, func(int) {
		var attrs []attribute.KeyValue
		on := false
		for _, name := range flags {
			set := rand.IntN(2) == 0 // #nosec G404 -- load
			on = on || set && name == flag
			attrs = append(attrs, attribute.Bool("feature."+name, set))
		}
		l.request(anyPath(), func(ctx context.Context) error {
			l.step(ctx, "SELECT orders", between(.2, 1.5))
			for _, k := range kinds {
				p := .01
				if l.fault && k == kind && on {
					p = .03 // with and without the flag, twice as many on average
				}
				if rand.Float64() < p { // #nosec G404 -- load
					return errors.New(k)
				}
			}
			return nil
		}, attrs...)
	})
}

func retryStorm(l *lab) {
	names := []string{"stock", "price", "auth"}
	fails, from := names[l.secret.IntN(3)], time.Duration(2+l.secret.IntN(3))*time.Second
	l.says(first + "(call " + fails + "|GET /cart)")
	began, room := time.Now(), make(chan struct{}, 6)
	call := func(ctx context.Context, name string, attempt int) (err error) {
		_, s := l.tracer.Start(ctx, "call "+name, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attribute.Int("attempt", attempt)))
		defer s.End()
		if name != fails {
			time.Sleep(between(1, 3))
			return nil
		}
		select {
		case room <- struct{}{}:
			defer func() { <-room }()
		case <-time.After(150 * time.Millisecond):
			s.SetStatus(codes.Error, "timeout")
			return errors.New("timeout of " + name)
		}
		if at := time.Since(began); at < from || at > from+2*time.Second {
			time.Sleep(between(2, 6))
			return nil
		}
		time.Sleep(between(90, 140))
		s.SetStatus(codes.Error, "503")
		return errors.New("503 from " + name)
	}
	var wg sync.WaitGroup
	for time.Since(began) < 9*time.Second {
		wg.Go(func() {
			l.request("cart", func(ctx context.Context) (err error) {
				for _, name := range names {
					for attempt := range 6 {
						err = call(ctx, name, attempt)
						if err == nil {
							break
						}
						slog.WarnContext(ctx, "retrying", "err", err)
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		})
		time.Sleep(between(6, 12))
	}
	wg.Wait()
}

func sharedLock(l *lab) {
	order := l.secret.Perm(len(paths))
	holds, waits, d := paths[order[0]], paths[order[1]], time.Duration(20+l.secret.IntN(40))*time.Millisecond
	l.says(first+"GET /"+waits, "while GET /"+holds)
	var mu sync.Mutex
	hold := func(d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		time.Sleep(d)
	}
	load(8, 2500, func(int) {
		at := anyPath()
		if at == holds && rand.IntN(6) != 0 { // #nosec G404 -- it is rare
			at = paths[order[2]]
		}
		l.request(at, func(ctx context.Context) error {
			l.step(ctx, "SELECT "+at, between(1, 6))
			switch at {
			case holds:
				hold(d)
			case waits:
				hold(100 * time.Microsecond)
			}
			l.step(ctx, "SELECT "+at, between(1, 3))
			return nil
		})
	})
}

func downstream(l *lab) {
	slow, group := l.path(), fmt.Sprint("g", l.secret.IntN(6))
	l.says(`(?m)^1\. stock  (SELECT |GET /)`+slow, `group = "`+group)
	own, err := exporter.New(exporter.WithPath("stock.et"))
	must(l.t, err)
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(own), sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "stock"))))
	defer provider.Shutdown(context.Background())
	stock := *l
	stock.tracer = provider.Tracer("stock")
	load(16, 3000, func(int) {
		of, at := fmt.Sprint("g", rand.IntN(6)), anyPath() // #nosec G404 -- load
		l.request("page", func(ctx context.Context) error {
			ctx, call := l.tracer.Start(ctx, "call stock", trace.WithSpanKind(trace.SpanKindClient))
			defer call.End()
			ctx = trace.ContextWithRemoteSpanContext(ctx, call.SpanContext())
			ctx, s := stock.tracer.Start(ctx, "GET /"+at, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attribute.String("sku.group", of)))
			defer s.End()
			d := between(1, 4)
			if at == slow && of == group {
				d = between(60, 150)
			}
			stock.step(ctx, "SELECT "+at, d)
			return nil
		})
	})
}

func vanished(l *lab) {
	of, gone := l.path(), []string{"charge", "mail", "audit"}[l.secret.IntN(3)]
	l.says("changed, but no request is slower(?s:.*)no longer .*" + gone + ".* of GET /" + of)
	const n = 4000
	load(8, n, func(i int) {
		at := anyPath()
		l.request(at, func(ctx context.Context) error {
			for _, name := range []string{"charge", "mail", "audit"} {
				if at != of || name != gone || i < n*2/3 {
					l.step(ctx, name, between(.5, 2))
				}
			}
			return nil
		})
	})
}

func slower(l *lab) {
	table := l.path()
	l.says(first + "SELECT " + table)
	load(4, 3000, func(int) {
		at := anyPath()
		l.request(at, func(ctx context.Context) error {
			d := between(8, 12)
			if l.fault && at == table {
				d = d * 6 / 5
			}
			l.step(ctx, "SELECT "+at, d)
			return nil
		})
	})
}

func fewRequests(l *lab) {
	why := fmt.Sprint("account ", paths[l.secret.IntN(len(paths))], " is locked")
	l.says(`(?m)^\d of \d requests GET /\S+ fail: `+why, "Most frequent errors", why)
	for i := range 3 {
		l.request(anyPath(), func(ctx context.Context) error {
			l.step(ctx, "look up", between(1, 2))
			if i > 0 {
				return errors.New(why)
			}
			return nil
		})
	}
}

type node struct {
	next *node
	_    [48]byte
}

func collections(l *lab) {
	at := l.path()
	l.says(first+"GET /"+at, "(?i)(gc|collect|heap)")
	var keep *node
	for range 3_000_000 {
		keep = &node{next: keep}
	}
	began, n := time.Now(), 0
	for time.Since(began) < 8*time.Second {
		of := anyPath()
		l.request(of, func(ctx context.Context) error {
			l.step(ctx, "SELECT "+of, between(1, 3))
			var list *node
			for range 200_000 {
				if of != at || time.Since(began) < 4*time.Second {
					break
				}
				list = &node{next: list}
			}
			if list != nil {
				n++
			}
			return nil
		})
	}
	slog.Info("done", "n", n, "first", keep.next == nil)
}

//go:noinline
func (l *lab) waitForEver(done chan struct{}) { <-done }

func goroutines(l *lab) {
	l.says(`goroutines: \d+ → \d+ `, `\d+ goroutines in .*waitForEver`)
	done := make(chan struct{})
	defer close(done)
	defer l.request("last", func(context.Context) error { return errors.New("no more goroutines") })
	for began := time.Now(); time.Since(began) < 12*time.Second; time.Sleep(between(4, 8)) {
		l.request(anyPath(), func(ctx context.Context) error {
			go l.waitForEver(done)
			l.step(ctx, "SELECT t", between(.2, .5))
			return nil
		})
	}
}

func memory(l *lab) {
	l.says("MiB of the heap: .* → ")
	debug.SetGCPercent(20)
	var kept [][]byte
	for began := time.Now(); time.Since(began) < 12*time.Second; time.Sleep(between(4, 8)) {
		l.request(anyPath(), func(ctx context.Context) error {
			kept = append(kept, make([]byte, 100<<10))
			l.step(ctx, "SELECT t", between(.2, .5))
			return nil
		})
	}
	slog.Info("done", "n", len(kept))
}

func hang(l *lab) {
	at := l.path()
	l.says("GET /"+at, "waitForEver")
	load(4, 400, func(int) {
		l.request(anyPath(), func(ctx context.Context) error {
			l.step(ctx, "SELECT t", between(.2, 1))
			return nil
		})
	})
	go l.request(at, func(context.Context) error { l.waitForEver(nil); return nil })
	time.Sleep(4 * time.Second)
}

func panics(l *lab) {
	why := fmt.Sprint("boom ", l.secret.IntN(1000))
	l.says("(?m)^.*panic.*" + why)
	load(4, 400, func(i int) {
		l.request(anyPath(), func(ctx context.Context) error {
			l.step(ctx, "SELECT t", between(.2, 1))
			if i == 350 {
				panic(why)
			}
			return nil
		})
	})
}

func killed(l *lab) {
	at := l.path()
	l.says("killed", "GET /"+at)
	load(4, 400, func(int) {
		l.request(anyPath(), func(ctx context.Context) error {
			l.step(ctx, "SELECT t", between(.2, 1))
			return nil
		})
	})
	l.request(at, func(context.Context) error {
		p, err := os.FindProcess(os.Getpid())
		must(l.t, err)
		must(l.t, p.Kill())
		select {}
	})
}
