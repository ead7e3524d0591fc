package lua

import (
	"math"
	"regexp"
	"runtime"
	"strings"

	vm "github.com/yuin/gopher-lua"
)

// The functions of this file replace functions of gopher-lua that would use files, the standard output, or memory
// without a limit.

// openLibraries opens the libraries that scripts may use.
func (t *thread) openLibraries() {
	l := t.l
	for _, lib := range []struct {
		name string
		open vm.LGFunction
	}{
		{vm.BaseLibName, vm.OpenBase},
		{vm.TabLibName, vm.OpenTable},
		{vm.StringLibName, vm.OpenString},
		{vm.MathLibName, vm.OpenMath},
		{vm.CoroutineLibName, vm.OpenCoroutine},
	} {
		l.Push(l.NewFunction(lib.open))
		l.Push(vm.LString(lib.name))
		l.Call(1, 0)
	}
	for _, name := range []string{"dofile", "loadfile", "module", "require", "newproxy", "_printregs", "_GOPHER_LUA_VERSION"} {
		l.SetGlobal(name, vm.LNil)
	}
	set := l.Register
	set("print", func(l *vm.LState) int {
		parts := make([]string, l.GetTop())
		for i := range parts {
			parts[i] = l.ToStringMeta(l.Get(i + 1)).String()
		}
		t.print(strings.Join(parts, "\t"))
		return 0
	})
	load := func(l *vm.LState) int {
		proto, err := compileBlock(l.OptString(2, "=(load)"), l.CheckString(1))
		if err != nil {
			l.Push(vm.LNil)
			l.Push(vm.LString(err.Error()))
			return 2
		}
		l.Push(l.NewFunctionFromProto(proto))
		return 1
	}
	set("load", load)
	set("loadstring", load)
	library := func(name string) *vm.LTable { return l.GetGlobal(name).(*vm.LTable) }
	library("math").RawSetString("huge", vm.LNumber(math.Inf(1)))
	library("string").RawSetString(concatKey, l.NewFunction(t.concat))
	guard := func(lib, name string, check func(l *vm.LState)) {
		fn := library(lib).RawGetString(name).(*vm.LFunction).GFunction
		library(lib).RawSetString(name, l.NewFunction(func(l *vm.LState) int {
			check(l)
			return fn(l)
		}))
	}
	guard("string", "rep", func(l *vm.LState) { t.room(uint64(len(l.CheckString(1))), uint64(max(0, l.CheckInt(2)))) })
	guard("string", "gsub", func(l *vm.LState) {
		if with, ok := l.Get(3).(vm.LString); ok {
			t.room(uint64(len(l.CheckString(1))), uint64(len(with)))
		}
	})
	guard("string", "format", func(l *vm.LState) {
		if !validFormat.MatchString(l.CheckString(1)) {
			l.RaiseError("invalid format: a width or a precision has at most two digits")
		}
		size := 0
		for i := range l.GetTop() {
			size += 4*len(vm.LVAsString(l.Get(i+1))) + 128 // %q writes up to four bytes for one
		}
		t.room(uint64(size), 1)
	})
	guard("table", "concat", func(l *vm.LState) {
		list, size := l.CheckTable(1), 0
		for i := 1; i <= list.Len(); i++ {
			size += len(vm.LVAsString(list.RawGetInt(i))) + len(l.OptString(2, ""))
		}
		t.room(uint64(size), 1)
	})
}

// validFormat matches the first argument of string.format if no conversion makes a text much longer than its value.
var validFormat = regexp.MustCompile(`^([^%]|%[-+ #0]*[0-9]{0,2}(\.[0-9]{0,2})?[a-zA-Z%])*$`)

// smallText is the size of texts below which room does not read the memory in use.
const smallText = 64 << 10

// room checks whether there is memory for n texts of the given size. It raises an error if the texts alone exceed
// MaxMemory. It cancels the run if they exceed MaxMemory together with the memory already in use.
func (t *thread) room(size, n uint64) {
	most := uint64(t.options.MaxMemory)
	if n > 1 && size > 0 && n > most/size {
		t.l.RaiseError("resulting string too large")
	}
	size *= n
	if size < smallText {
		return
	}
	if t.used()+int64(size) <= t.options.MaxMemory {
		return
	}
	runtime.GC() // garbage does not count
	if t.used()+int64(size) > t.options.MaxMemory {
		t.cancel(ErrMemory)
		t.l.RaiseError("%s", ErrMemory.Error())
	}
}
