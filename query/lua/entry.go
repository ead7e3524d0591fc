package lua

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	vm "github.com/yuin/gopher-lua"

	"github.com/entrace-go/entrace/format"
)

const messageName = "message"

// entry returns an entry, with its message as an attribute, and the attributes in the order of their names.
func (t *thread) entry(id uint32) *format.TraceEntry {
	t.checkID(id)
	e, err := t.file.Entry(id)
	t.check(err)
	if _, ok := e.Attribute(messageName); e.Message.Valid && !ok {
		e.Add(messageName, format.StringValue(e.Message.Value))
	}
	slices.SortStableFunc(e.Attributes, func(a, b format.Attribute) int { return strings.Compare(a.Name, b.Name) })
	return e
}

// attribute returns an attribute of an entry. For most attributes, it is faster than entry.
func (t *thread) attribute(id uint32, name string) (v format.Value, ok bool) {
	if name == messageName {
		return t.entry(id).Attribute(name)
	}
	t.checkID(id)
	v, ok, err := t.file.Attribute(id, name)
	t.check(err)
	return v, ok
}

// checkID raises an error if an id is not in the file.
func (t *thread) checkID(id uint32) {
	if int(id) >= t.n {
		t.fail(fmt.Errorf("Out of bounds. Tried to access index %d from a collection of length %d", id, t.n)) //nolint:staticcheck // as ENTRACE has it
	}
}

// luaValue converts a value to a Lua value. Bytes become a list, and numbers become the nearest float64.
func luaValue(v format.Value) vm.LValue {
	switch v.Kind() {
	case format.KindString:
		return vm.LString(v.Text())
	case format.KindBool:
		return vm.LBool(v.Bool())
	case format.KindFloat:
		return vm.LNumber(v.Float())
	case format.KindBytes:
		list := new(vm.LTable)
		for i, c := range v.Bytes() {
			list.RawSetInt(i+1, vm.LNumber(c))
		}
		return list
	}
	if n, ok := v.I64(); ok {
		return vm.LNumber(n)
	}
	if n, ok := v.U64(); ok {
		return vm.LNumber(n)
	}
	f, _ := strconv.ParseFloat(string(v.AppendDecimal(nil)), 64)
	return vm.LNumber(f)
}

var (
	errRange  = errors.New("out of range")
	errNumber = errors.New("expected number or string coercible to number")
	errText   = errors.New("expected string")
	errUTF8   = errors.New("the text is not UTF-8")
)

// toID converts a Lua value, either a number or a text with a number, to an id or index. It truncates
// fractions.
func toID(v vm.LValue) (uint32, error) {
	var f float64
	switch v := v.(type) {
	case vm.LNumber:
		f = float64(v)
	case vm.LString:
		n, err := strconv.ParseFloat(strings.TrimSpace(string(v)), 64)
		if err != nil {
			return 0, errNumber
		}
		f = n
	default:
		return 0, errNumber
	}
	f = math.Trunc(f)
	if !(f >= 0 && f <= math.MaxUint32) {
		return 0, errRange
	}
	return uint32(f), nil
}

// toText converts a Lua value, either a text or a number, to a text.
func toText(v vm.LValue) (string, error) {
	switch v := v.(type) {
	case vm.LString:
		if !utf8.ValidString(string(v)) {
			return "", errUTF8
		}
		return string(v), nil
	case vm.LNumber:
		return v.String(), nil
	}
	return "", errText
}

// fail raises an error in the script.
func (t *thread) fail(err error) { t.l.RaiseError("%s", err.Error()) }

// check raises err in the script, unless err is nil.
func (t *thread) check(err error) {
	if err != nil {
		t.fail(err)
	}
}

// idOf converts a Lua value to an id.
func (t *thread) idOf(v vm.LValue) uint32 {
	id, err := toID(v)
	t.check(err)
	return id
}

// id returns argument n of the running function as an id.
func (t *thread) id(n int) uint32 {
	id, err := toID(t.l.Get(n))
	if err != nil {
		t.l.ArgError(n, err.Error())
	}
	return id
}

// text returns argument n of the running function as a text.
func (t *thread) text(n int) string {
	s, err := toText(t.l.Get(n))
	if err != nil {
		t.l.ArgError(n, err.Error())
	}
	return s
}

// table returns argument n of the running function as a table.
func (t *thread) table(n int) *vm.LTable { return t.l.CheckTable(n) }

// children returns the children of an entry.
func (t *thread) children(id uint32) []uint32 {
	t.checkID(id)
	return t.file.Children(id)
}

func idList(ids []uint32) *vm.LTable {
	list := new(vm.LTable)
	for i, id := range ids {
		list.RawSetInt(i+1, vm.LNumber(id))
	}
	return list
}

// optional returns a text as a Lua value, or Lua's nil.
func optional(s format.Optional[string]) vm.LValue {
	if !s.Valid {
		return vm.LNil
	}
	return vm.LString(s.Value)
}

// define defines a global function with one result.
func (t *thread) define(name string, fn func() vm.LValue) {
	t.l.Register(name, func(l *vm.LState) int {
		l.Push(fn())
		return 1
	})
}

// openEntries defines the functions that read entries.
func (t *thread) openEntries() {
	set := t.define
	t.l.Register("en_span_range", func(l *vm.LState) int {
		l.Push(vm.LNumber(t.first))
		l.Push(vm.LNumber(t.last))
		return 2
	})
	set("en_span_cnt", func() vm.LValue { return vm.LNumber(t.n) })
	set("en_children", func() vm.LValue { return idList(t.children(t.id(1))) })
	set("en_child_cnt", func() vm.LValue { return vm.LNumber(len(t.children(t.id(1)))) })

	meta := func(name string, field func(e *format.TraceEntry) vm.LValue) {
		set("en_metadata_"+name, func() vm.LValue { return field(t.entry(t.id(1))) })
	}
	fields := map[string]func(e *format.TraceEntry) vm.LValue{
		"name":        func(e *format.TraceEntry) vm.LValue { return vm.LString(e.Metadata.Name) },
		"target":      func(e *format.TraceEntry) vm.LValue { return vm.LString(e.Metadata.Target) },
		"level":       func(e *format.TraceEntry) vm.LValue { return vm.LNumber(e.Metadata.Level + 1) },
		"file":        func(e *format.TraceEntry) vm.LValue { return optional(e.Metadata.File) },
		"module_path": func(e *format.TraceEntry) vm.LValue { return optional(e.Metadata.ModulePath) },
		"line": func(e *format.TraceEntry) vm.LValue {
			if !e.Metadata.Line.Valid {
				return vm.LNil
			}
			return vm.LNumber(e.Metadata.Line.Value)
		},
	}
	for name, field := range fields {
		meta(name, field)
	}
	meta("table", func(e *format.TraceEntry) vm.LValue {
		all := new(vm.LTable)
		for name, field := range fields {
			all.RawSetString(name, field(e))
		}
		return all
	})
	set("en_attrs", func() vm.LValue {
		all := new(vm.LTable)
		for _, a := range t.entry(t.id(1)).Attributes {
			all.RawSetString(a.Name, luaValue(a.Value))
		}
		return all
	})
	list := func(name string, item func(a format.Attribute) vm.LValue) {
		set(name, func() vm.LValue {
			all := new(vm.LTable)
			for i, a := range t.entry(t.id(1)).Attributes {
				all.RawSetInt(i+1, item(a))
			}
			return all
		})
	}
	nameOf := func(a format.Attribute) vm.LValue { return vm.LString(a.Name) }
	valueOf := func(a format.Attribute) vm.LValue { return luaValue(a.Value) }
	list("en_attr_names", nameOf)
	list("en_attr_values", valueOf)
	at := func() format.Attribute {
		i := t.id(2)
		list := t.entry(t.id(1)).Attributes
		if int(i) >= len(list) {
			t.fail(fmt.Errorf("Index out of bounds. Tried to access element %d of a container of size %d", i, len(list))) //nolint:staticcheck // as ENTRACE has it
		}
		return list[i]
	}
	set("en_attr_name", func() vm.LValue { return nameOf(at()) })
	set("en_attr_value", func() vm.LValue { return valueOf(at()) })
	t.l.Register("en_attr_by_idx", func(l *vm.LState) int {
		a := at()
		l.Push(nameOf(a))
		l.Push(valueOf(a))
		return 2
	})
	set("en_attr_by_name", func() vm.LValue {
		v, ok := t.attribute(t.id(1), t.text(2))
		if !ok {
			return vm.LNil
		}
		return luaValue(v)
	})
	set("en_as_string", func() vm.LValue { return vm.LString(t.appendDebug(nil, t.id(1))) })
	var buf []byte
	set("en_contains_anywhere", func() vm.LValue {
		buf = t.appendDebug(buf[:0], t.id(1))
		return vm.LBool(strings.Contains(string(buf), t.text(2)))
	})
	t.l.Register("en_log", func(l *vm.LState) int {
		t.print("Lua log: " + debugValue(l.Get(1)))
		return 0
	})
	set("en_pretty_table", func() vm.LValue {
		var b strings.Builder
		pretty(&b, t.table(1), "", make(map[*vm.LTable]bool))
		return vm.LString(b.String())
	})
	set("en_foreach", t.foreach)
	set("en_join", func() vm.LValue {
		var ids []uint32
		for list, i := t.table(1), 1; i <= list.Len(); i++ {
			if id, err := toID(list.RawGetInt(i)); err == nil {
				ids = append(ids, id)
			}
		}
		all, goesOn := t.join.meet(t.number, ids)
		if !goesOn {
			t.stopped = true
			t.cancelOwn()
			t.fail(errors.New("another thread continues with the entries"))
		}
		return idList(all)
	})
}

// foreach implements en_foreach. It calls the function that is the first argument for each id in the
// thread's part, and returns a list of the ids that the function selects.
func (t *thread) foreach() vm.LValue {
	fn := t.l.CheckFunction(1)
	found, n := new(vm.LTable), 0
	add := func(v vm.LNumber) {
		if v >= 0 && v <= math.MaxUint32 {
			n++
			found.RawSetInt(n, v)
		}
	}
	for i := t.first; i <= t.last && i < t.n; i++ {
		t.l.Push(fn)
		t.l.Push(vm.LNumber(i))
		t.l.Call(1, 1)
		result := t.l.Get(-1)
		t.l.Pop(1)
		switch v := result.(type) {
		case *vm.LNilType:
		case vm.LBool:
			if v {
				add(vm.LNumber(i))
			}
		case vm.LNumber:
			if float64(v) != math.Trunc(float64(v)) {
				t.fail(fmt.Errorf("Callback in en_foreach returned value of bad type: %s", debugValue(v))) //nolint:staticcheck // as ENTRACE has it
			}
			add(v)
		case *vm.LTable:
			for k := 1; ; k++ {
				item := v.RawGetInt(k)
				if item == vm.LNil {
					break
				}
				if id, err := toID(item); err == nil {
					add(vm.LNumber(id))
				}
			}
		default:
			t.fail(fmt.Errorf("Callback in en_foreach returned value of bad type: %s", debugValue(result))) //nolint:staticcheck // as ENTRACE has it
		}
	}
	return found
}
