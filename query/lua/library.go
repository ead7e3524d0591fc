package lua

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"strconv"
	"strings"

	vm "github.com/yuin/gopher-lua"
)

// The functions of this file replace functions of gopher-lua that differ from LuaJIT.

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
			parts[i] = toString(l, l.Get(i+1))
		}
		t.print(strings.Join(parts, "\t"))
		return 0
	})
	set("tostring", func(l *vm.LState) int {
		l.Push(vm.LString(toString(l, l.CheckAny(1))))
		return 1
	})
	tonumber := l.GetGlobal("tonumber")
	set("tonumber", func(l *vm.LState) int {
		if s, ok := l.Get(1).(vm.LString); ok && (l.Get(2) == vm.LNil || l.Get(2) == vm.LNumber(10)) {
			if n, ok := parseNumber(string(s)); ok {
				l.Push(vm.LNumber(n))
			} else {
				l.Push(vm.LNil)
			}
			return 1
		}
		return forward(l, tonumber)
	})
	set("collectgarbage", func(l *vm.LState) int {
		n := 0.0
		if l.OptString(1, "collect") == "count" {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			n = float64(m.HeapAlloc) / 1024
		}
		l.Push(vm.LNumber(n))
		return 1
	})
	load := func(l *vm.LState) int {
		text, name := "", l.OptString(2, "=(load)")
		if fn, ok := l.Get(1).(*vm.LFunction); ok {
			for {
				l.Push(fn)
				l.Call(0, 1)
				piece := vm.LVAsString(l.Get(-1))
				l.Pop(1)
				if text += piece; piece == "" || len(text) > MaxScript {
					break
				}
			}
		} else {
			text = l.CheckString(1)
		}
		if len(text) > MaxScript {
			l.Push(vm.LNil)
			l.Push(vm.LString("the text is too long"))
			return 2
		}
		proto, err := compileBlock(name, text)
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
	set("xpcall", func(l *vm.LState) int {
		fn, handler := l.CheckAny(1), l.CheckFunction(2)
		top := l.GetTop()
		l.Push(fn)
		for i := 3; i <= top; i++ {
			l.Push(l.Get(i))
		}
		if err := l.PCall(max(0, top-2), vm.MultRet, handler); err != nil {
			l.SetTop(top)
			l.Push(vm.LFalse)
			if e, ok := errors.AsType[*vm.ApiError](err); ok {
				l.Push(e.Object)
			} else {
				l.Push(vm.LString(err.Error()))
			}
			return 2
		}
		l.Insert(vm.LTrue, top+1)
		return l.GetTop() - top
	})
	if m, ok := l.GetGlobal("math").(*vm.LTable); ok {
		m.RawSetString("huge", vm.LNumber(math.Inf(1)))
	}
	if s, ok := l.GetGlobal("string").(*vm.LTable); ok {
		s.RawSetString(concatKey, l.NewFunction(t.concat))
		s.RawSetString("rep", l.NewFunction(t.rep))
		s.RawSetString("format", l.NewFunction(formatText))
		s.RawSetString("dump", vm.LNil)
		gsub := s.RawGetString("gsub")
		s.RawSetString("gsub", l.NewFunction(func(l *vm.LState) int {
			if with, ok := l.Get(3).(vm.LString); ok {
				t.room(uint64(len(l.CheckString(1))), uint64(len(with)))
			}
			return forward(l, gsub)
		}))
	}
	if tab, ok := l.GetGlobal("table").(*vm.LTable); ok {
		concat := tab.RawGetString("concat")
		tab.RawSetString("concat", l.NewFunction(func(l *vm.LState) int {
			list, size := l.CheckTable(1), uint64(0)
			for i := 1; i <= list.Len(); i++ {
				size += uint64(len(vm.LVAsString(list.RawGetInt(i))) + len(l.OptString(2, "")))
			}
			t.room(size, 1)
			return forward(l, concat)
		}))
	}
	t.openBits()
}

// forward calls fn with the arguments of the running function.
func forward(l *vm.LState, fn vm.LValue) int {
	top := l.GetTop()
	l.Push(fn)
	for i := 1; i <= top; i++ {
		l.Push(l.Get(i))
	}
	l.Call(top, vm.MultRet)
	return l.GetTop() - top
}

// toString formats a value as print does.
func toString(l *vm.LState, v vm.LValue) string {
	if n, ok := v.(vm.LNumber); ok {
		return numberText(float64(n))
	}
	return l.ToStringMeta(v).String()
}

// numberText formats a number with at most 14 digits.
func numberText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 0):
		return strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(f, 'g', -1, 64)), "+")
	}
	return fmt.Sprintf("%.14g", f)
}

// parseNumber parses a decimal number, with or without an exponent, or a hexadecimal number.
func parseNumber(s string) (float64, bool) {
	s = strings.TrimSpace(s)
	switch strings.ToLower(strings.TrimLeft(s, "+-")) {
	case "inf", "infinity", "nan":
		f, err := strconv.ParseFloat(s, 64)
		return f, err == nil
	}
	if strings.Trim(s, "0123456789.eE+-xXabcdfABCDFpP") != "" {
		return 0, false
	}
	digits := strings.TrimLeft(s, "+-")
	if len(s)-len(digits) > 1 {
		return 0, false
	}
	if hex, ok := strings.CutPrefix(strings.ToLower(digits), "0x"); ok {
		if !strings.Contains(hex, "p") {
			hex += "p0"
		}
		s = s[:len(s)-len(digits)] + "0x" + hex
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil || errors.Is(err, strconv.ErrRange)
}

// smallText is the size of texts below which room does not read the memory in use.
const smallText = 64 << 10

// room checks whether there is memory for n texts of the given size. It raises an error if the texts alone exceed
// MaxMemory. It cancels the run if they exceed MaxMemory together with the memory already in use.
func (t *thread) room(size, n uint64) {
	most := uint64(t.options.MaxMemory)
	if n > 1 && size > 0 && n > most/size {
		t.l.RaiseError("resulting string too large")
	}
	if size *= n; size < smallText {
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

// rep is string.rep with a separator and a check of the memory.
func (t *thread) rep(l *vm.LState) int {
	s, n, sep := l.CheckString(1), l.CheckInt(2), l.OptString(3, "")
	if n <= 0 {
		l.Push(vm.LString(""))
		return 1
	}
	t.room(uint64(len(s))+uint64(len(sep)), uint64(n))
	l.Push(vm.LString(strings.Repeat(s+sep, n-1) + s))
	return 1
}

// formatText is string.format.
func formatText(l *vm.LState) int {
	text := l.CheckString(1)
	var b strings.Builder
	arg := 1
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			b.WriteByte(text[i])
			continue
		}
		from := i
		if i += 1 + len(text[i+1:]) - len(strings.TrimLeft(text[i+1:], "-+ #0123456789.")); i == len(text) {
			l.RaiseError("invalid option '%%' to 'format'")
		}
		spec, verb := text[from:i], text[i]
		if verb == '%' {
			b.WriteByte('%')
			continue
		}
		if !isSpec(spec) {
			l.RaiseError("invalid format (repeated flags or width or precision too long)")
		}
		arg++
		switch verb {
		case 'd', 'i':
			fmt.Fprintf(&b, spec+"d", int64(l.CheckNumber(arg)))
		case 'u', 'o', 'x', 'X':
			if verb == 'u' {
				verb = 'd'
			}
			fmt.Fprintf(&b, spec+string(verb), uint64(int64(l.CheckNumber(arg))))
		case 'c':
			b.WriteByte(byte(l.CheckInt(arg)))
		case 'e', 'E', 'f', 'g', 'G', 'a', 'A':
			f := float64(l.CheckNumber(arg))
			switch {
			case math.IsNaN(f) || math.IsInf(f, 0):
				fmt.Fprintf(&b, strings.ReplaceAll(strings.SplitN(spec, ".", 2)[0], "0", "")+"s", numberText(f))
			case verb == 'a' || verb == 'A':
				fmt.Fprintf(&b, spec+string(verb-'a'+'x'), f)
			default:
				if !strings.Contains(spec, ".") {
					spec += ".6"
				}
				fmt.Fprintf(&b, spec+string(verb), f)
			}
		case 's':
			fmt.Fprintf(&b, spec+"s", toString(l, l.CheckAny(arg)))
		case 'q':
			b.WriteString(quoted(l.CheckString(arg)))
		default:
			l.RaiseError("invalid option '%%%s' to 'format'", string(verb))
		}
	}
	l.Push(vm.LString(b.String()))
	return 1
}

// isSpec reports whether a format specification is valid: a % with flags, at most two digits for
// the width and, after a point, at most two digits for the precision.
func isSpec(spec string) bool {
	digits := func(s string) string {
		for range 2 {
			if s != "" && s[0] >= '0' && s[0] <= '9' {
				s = s[1:]
			}
		}
		return s
	}
	flags := strings.TrimLeft(spec[1:], "-+ #0")
	rest := digits(flags)
	if after, ok := strings.CutPrefix(rest, "."); ok {
		rest = digits(after)
	}
	return rest == "" && len(spec)-1-len(flags) <= 5
}

// quoted formats a text as a Lua literal.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`"`, `\"`, `\`, `\\`, "\n", "\\\n", "\r", `\r`, "\x00", `\000`).Replace(s) + `"`
}

// openBits defines the library bit, which computes with 32 bits.
func (t *thread) openBits() {
	lib := t.l.NewTable()
	set := func(name string, fn func(l *vm.LState) int32) {
		lib.RawSetString(name, t.l.NewFunction(func(l *vm.LState) int {
			l.Push(vm.LNumber(fn(l)))
			return 1
		}))
	}
	set("tobit", func(l *vm.LState) int32 { return int32(bitsOf(l, 1)) })
	set("bnot", func(l *vm.LState) int32 { return int32(^bitsOf(l, 1)) })
	set("bswap", func(l *vm.LState) int32 { return int32(bits.ReverseBytes32(bitsOf(l, 1))) })
	fold := func(name string, fn func(a, b uint32) uint32) {
		set(name, func(l *vm.LState) int32 {
			n := bitsOf(l, 1)
			for i := 2; i <= l.GetTop(); i++ {
				n = fn(n, bitsOf(l, i))
			}
			return int32(n)
		})
	}
	fold("band", func(a, b uint32) uint32 { return a & b })
	fold("bor", func(a, b uint32) uint32 { return a | b })
	fold("bxor", func(a, b uint32) uint32 { return a ^ b })
	shift := func(name string, fn func(n uint32, by int) uint32) {
		set(name, func(l *vm.LState) int32 { return int32(fn(bitsOf(l, 1), int(bitsOf(l, 2)&31))) })
	}
	shift("lshift", func(n uint32, by int) uint32 { return n << by })
	shift("rshift", func(n uint32, by int) uint32 { return n >> by })
	shift("arshift", func(n uint32, by int) uint32 { return uint32(int32(n) >> by) })
	shift("rol", bits.RotateLeft32)
	shift("ror", func(n uint32, by int) uint32 { return bits.RotateLeft32(n, -by) })
	lib.RawSetString("tohex", t.l.NewFunction(func(l *vm.LState) int {
		n, digits := bitsOf(l, 1), max(-8, min(l.OptInt(2, 8), 8))
		verb := "%08x"
		if digits < 0 {
			verb, digits = "%08X", -digits
		}
		s := fmt.Sprintf(verb, n)
		l.Push(vm.LString(s[8-digits:]))
		return 1
	}))
	t.l.SetGlobal("bit", lib)
}

// bitsOf rounds argument n, which must be a number, and returns its low 32 bits.
func bitsOf(l *vm.LState, n int) uint32 {
	f := math.RoundToEven(float64(l.CheckNumber(n)))
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return uint32(int64(math.Mod(f, 1<<32)))
}
