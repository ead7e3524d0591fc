package control

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"sync"

	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/text"
)

// A Set is a bit set of providers. It uses the same bit numbers as [record.Providers].
type Set uint64

// The providers of this module. The first two are the span processor and the slog handler. Package provider has
// the others.
const (
	Spans          Set = 1 << iota // OpenTelemetry spans, including unsampled spans
	Logs                           // log/slog records
	RuntimeMetrics                 // samples of runtime/metrics
	GC                             // garbage collections and their pauses
	Sched                          // counts of goroutines, scheduler latencies, mutex waits
	Goroutines                     // the stacks of all goroutines at the time of a trace
	CPUProfile                     // samples of a CPU profile, as entries below spans
	ExecTrace                      // the execution trace of the runtime's flight recorder
	Process                        // memory, files and time of the process
)

var registry = struct {
	mu    sync.Mutex
	names []string // by bit
}{names: []string{"spans", "logs", "runtime.metrics", "gc", "sched", "goroutines", "cpu.profile", "exec.trace", "process"}}

// Register returns the bit of the provider with the given name. A new name gets a new bit. Call Register to
// initialize a package variable. It panics for the 65th name, and for a name that is empty or contains a
// comma or white space.
func Register(name string) Set {
	if name == "" || strings.ContainsAny(name, ", \t\r\n") {
		panic(fmt.Sprintf("control: %q cannot be the name of a provider", name))
	}
	registry.mu.Lock()
	defer registry.mu.Unlock()
	i := slices.Index(registry.names, name)
	if i < 0 {
		i = len(registry.names)
		if i == record.MaxProviders {
			panic("control: too many providers: a set has 64 bits")
		}
		registry.names = append(registry.names, name)
	}
	return 1 << i
}

// Named returns the set of the providers with these names. If a name is unknown, the error lists the known names.
func Named(names ...string) (Set, error) {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	var s Set
	for _, name := range names {
		i := slices.Index(registry.names, name)
		if i < 0 {
			known := slices.Sorted(slices.Values(registry.names))
			return 0, fmt.Errorf("unknown provider %q: known providers are %s", text.Head(name, 64), strings.Join(known, ", "))
		}
		s |= 1 << i
	}
	return s, nil
}

// names returns the names of the providers in s, in the order in which they were
// registered.
func (s Set) names() []string {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	var names []string
	for i, name := range registry.names {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// String returns the names of the providers in s, separated by commas, in the order in which they
// were registered.
func (s Set) String() string { return strings.Join(s.names(), ",") }

// number returns the bit number of the only provider in s.
func (s Set) number() record.Provider { return record.Provider(bits.TrailingZeros64(uint64(s))) }
