package gotrace

import (
	"hash/maphash"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/exp/trace"

	"github.com/entrace-go/entrace/internal/text"
)

// A State says what a goroutine does or waits for.
type State uint8

// The states. Running means that a goroutine has a thread and may run Go code. Whether the operating system runs the
// thread is not known. Mutex is a wait for a sync.Mutex or RWMutex, and Sync a wait for another type of package sync.
// GCWork is work for the garbage collector, and GCWait a wait for it.
const (
	Running  State = iota
	Runnable       // the goroutine waits until GOMAXPROCS allows it to run
	Syscall        // the goroutine is in a system call or in C
	GCWork
	GCWait
	Mutex
	Sync
	Chan
	Select
	Net
	Sleep
	Other

	NumStates = iota
)

const (
	gone State = NumStates // the goroutine does not exist
	none State = NumStates + 1
)

var stateNames = [NumStates]string{"running", "runnable", "syscall", "gc work", "gc wait", "mutex", "sync", "chan", "select", "net", "sleep", "other"}

func (s State) String() string { return stateNames[s] }

// Blocked reports whether s is a wait for another goroutine, for I/O or for a time. A wait for the runtime does
// not count.
func (s State) Blocked() bool { return s >= Mutex && s < NumStates }

// Times has the time in each state, in microseconds.
type Times [NumStates]uint32

// Sum returns the total time in microseconds.
func (t Times) Sum() (sum int64) {
	for _, d := range t {
		sum += int64(d)
	}
	return sum
}

// A Frame is a function and a line in it.
type Frame struct {
	Func string `json:"function"`
	File string `json:"file"`
	Line int    `json:"line"`
}

// String returns the function, without its path, and the base name and line of the file.
func (f *Frame) String() string {
	// Paths in a trace from Windows have backslashes, even if this program runs on another system.
	file := strings.ReplaceAll(f.File, `\`, "/")
	return f.Func[strings.LastIndexByte(f.Func, '/')+1:] + " " + file[strings.LastIndexByte(file, '/')+1:] + ":" + strconv.Itoa(f.Line)
}

// Own returns the frame of the program itself, or nil if the stack is not known.
func (c *Class) Own() *Frame {
	if len(c.Stack) == 0 {
		return nil
	}
	return &c.Stack[c.User]
}

// A Class is a place in the code at which goroutines wait, together with the kind of the wait.
type Class struct {
	State State
	Stack []Frame // the innermost first, at most maxFrames
	User  int     // the index of the innermost frame of the program itself, that is, not of the standard library
	Via   string  // the function of the standard library that the program called and that waits, or ""
}

const (
	maxFrames  = 32
	maxClasses = 50_000
)

// A classKey identifies a kind of wait within one generation of a trace.
type classKey struct {
	reason string
	stack  trace.Stack
}

// classes maps waits to classes.
type classes struct {
	list  []Class
	byKey map[classKey]int32 // only for the current generation, because each generation assigns new numbers to stacks
	known map[uint64]int32   // by a hash of state and stack
	seed  maphash.Seed
	std   string // the folder of the standard library
}

func newClasses() classes {
	return classes{byKey: make(map[classKey]int32), known: make(map[uint64]int32), seed: maphash.MakeSeed()}
}

// of returns the class of a wait, as an index of list.
func (c *classes) of(reason string, stack trace.Stack) int32 {
	k := classKey{reason, stack}
	if i, ok := c.byKey[k]; ok {
		return i
	}
	x := Class{State: stateOf(reason)}
	n := 0
	for f := range stack.Frames() {
		n++
		if n <= maxFrames {
			x.Stack = append(x.Stack, Frame{f.Func, f.File, int(f.Line)})
		}
		x.refine(reason, f.Func, n)
	}
	x.User = c.user(x.Stack)
	if i := slices.IndexFunc(x.Stack, func(f Frame) bool { return text.OfApplication(f.Func) }); i >= 0 && i < x.User {
		x.Via = x.Stack[i].Func
	}
	var b strings.Builder
	b.WriteByte(byte(x.State))
	for _, f := range x.Stack {
		b.WriteString(f.Func)
		b.WriteByte(byte(f.Line))
		b.WriteByte(byte(f.Line >> 8))
	}
	hash := maphash.String(c.seed, b.String())
	i, ok := c.known[hash]
	if !ok {
		if len(c.list) >= maxClasses {
			return c.other(x.State)
		}
		i = int32(len(c.list))
		c.list = append(c.list, x)
		c.known[hash] = i
	}
	c.byKey[k] = i
	return i
}

// other returns the class of a state whose stack is not known.
func (c *classes) other(s State) int32 {
	key := uint64(s) // a small number, to which the hash of a stack is equal only by an improbable chance
	i, ok := c.known[key]
	if !ok {
		i = int32(len(c.list))
		c.list = append(c.list, Class{State: s})
		c.known[key] = i
	}
	return i
}

// stateOf returns the state of a goroutine that waits for the given reason. Some reasons do not determine the
// state exactly: see refine.
func stateOf(reason string) State {
	switch reason {
	case "sync", "sync.(*Cond).Wait":
		return Sync
	case "chan send", "chan receive":
		return Chan
	case "select", "forever":
		return Select
	case "network":
		return Net
	case "sleep":
		return Sleep
	case "GC mark assist wait for work", "GC background sweeper wait", "wait until GC ends", "GC weak to strong wait":
		return GCWait
	}
	return Other
}

// refine determines the state more exactly from the nth function of the stack. The reason sync can mean a mutex,
// anything else of package sync, or a semaphore of the garbage collector. A state that is repeated at the begin of a
// generation has no reason.
func (c *Class) refine(reason, function string, n int) {
	const inner = 8 // all relevant functions of the runtime and of package sync are among this many innermost functions
	if n > inner {
		return
	}
	isMutex := strings.HasPrefix(function, "sync.(*Mutex)") || strings.HasPrefix(function, "internal/sync.(*Mutex)") || strings.HasPrefix(function, "sync.(*RWMutex)")
	switch {
	case c.State == Sync && (strings.HasPrefix(function, "runtime.gc") || function == "runtime.GC" || function == "runtime.stopTheWorldGC"):
		c.State = GCWait
	case c.State == Sync && isMutex:
		c.State = Mutex
	case c.State != Other || reason != "":
	case function == "runtime.chanrecv" || function == "runtime.chanrecv1" || function == "runtime.chanrecv2" || function == "runtime.chansend" || function == "runtime.chansend1":
		c.State = Chan
	case function == "runtime.selectgo" || function == "runtime.block":
		c.State = Select
	case function == "time.Sleep":
		c.State = Sleep
	case function == "runtime.netpollblock" || strings.HasPrefix(function, "internal/poll.runtime_poll"):
		c.State = Net
	case isMutex:
		c.State = Mutex
	case strings.HasPrefix(function, "sync.") || strings.HasPrefix(function, "internal/sync."):
		c.State = Sync
	}
}

// records reports whether a package is part of the recording of spans.
func records(pkg string) bool {
	const own = "github.com/entrace-go/entrace/"
	return strings.HasPrefix(pkg, "go.opentelemetry.io/otel/sdk") || pkg == own+"exporter" || pkg == own+"recorder" || strings.HasPrefix(pkg, own+"internal/") && !strings.HasSuffix(pkg, "_test")
}

// user returns the index of the innermost function of a stack that belongs to neither the standard library nor the
// packages that record spans.
func (c *classes) user(stack []Frame) int {
	for _, f := range stack {
		if c.std != "" {
			break
		}
		if p := text.PackageOf(f.Func); p == "runtime" || p == "sync" || p == "time" {
			if dir, _, ok := strings.Cut(f.File, "/src/"+p+"/"); ok {
				c.std = dir + "/src/"
			}
		}
	}
	first := -1
	for i, f := range stack {
		if !text.OfApplication(f.Func) {
			continue
		}
		if first < 0 {
			first = i
		}
		head, _, _ := strings.Cut(text.PackageOf(f.Func), "/")
		isStandard := head != "main" && !strings.Contains(head, ".") // needed for programs that were built with -trimpath
		if c.std != "" && strings.HasPrefix(f.File, "/") {
			isStandard = strings.HasPrefix(f.File, c.std)
		}
		if !isStandard && !records(text.PackageOf(f.Func)) {
			return i
		}
	}
	return max(first, 0)
}
