package lua

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	vm "github.com/yuin/gopher-lua"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/view"
)

// A filterset is an expression that selects ids: a Lua table with a list of items, which are the nodes of the
// expression, and the number of the root item. An item refers to other items by their numbers, which begin at 0.
// Functions that make a filterset from other filtersets copy their items.

// openFiltersets defines the functions on filtersets.
func (t *thread) openFiltersets() {
	set := t.define
	set("en_filterset_from_list", func() vm.LValue {
		return filterset(nil, item("prim_list", field{"value", t.table(1)}))
	})
	set("en_filterset_from_range", func() vm.LValue {
		return filterset(nil, item("prim_range", field{"start", vm.LNumber(t.id(1))}, field{"end", vm.LNumber(t.id(2))}))
	})
	set("en_filterset_universe", func() vm.LValue {
		return filterset(nil, item("prim_range", field{"start", vm.LNumber(t.first)}, field{"end", vm.LNumber(t.last)}))
	})
	set("en_filter", func() vm.LValue {
		predicate, src := new(vm.LTable), 2
		if given, ok := t.l.Get(1).(*vm.LTable); ok {
			predicate = t.copyTable(given)
		} else {
			src = 4
			for i, key := range []string{"target", "relation", "value"} {
				predicate.RawSetString(key, t.l.Get(i+1))
			}
		}
		return t.filtered(listOf(listOf(predicate)), t.table(src))
	})
	set("en_filterset_dnf", func() vm.LValue { return t.filtered(t.copyTable(t.table(1)), t.table(2)) })
	set("en_filterset_union", func() vm.LValue { return t.joined("union") })
	set("en_filterset_intersect", func() vm.LValue { return t.joined("intersect") })
	set("en_filterset_invert", func() vm.LValue {
		items, srcs := t.concatenated([]*vm.LTable{t.table(1), t.table(2)})
		return filterset(items, item("invert", field{"src", srcs.RawGetInt(1)}, field{"universe", srcs.RawGetInt(2)}))
	})
	set("en_filterset_materialize", func() vm.LValue { return idList(t.evaluate(t.table(1))) })
}

// item returns an item of the given kind with the given fields.
func item(kind string, fields ...field) *vm.LTable {
	i := new(vm.LTable)
	i.RawSetString("type", vm.LString(kind))
	for _, f := range fields {
		i.RawSetString(f.name, f.value)
	}
	return i
}

// A field is a field of an item.
type field struct {
	name  string
	value vm.LValue
}

// filterset returns a filterset with the given items, followed by the item last, which is the root.
func filterset(items *vm.LTable, last *vm.LTable) *vm.LTable {
	if items == nil {
		items = new(vm.LTable)
	}
	items.Append(last)
	return item("filterset", field{"root", vm.LNumber(items.Len() - 1)}, field{"items", items})
}

func listOf(v vm.LValue) *vm.LTable {
	list := new(vm.LTable)
	list.Append(v)
	return list
}

// maxNesting is the maximum nesting depth of tables that are copied or printed.
const maxNesting = 1000

// copyTable makes a deep copy of a table. It copies each inner table once.
func (t *thread) copyTable(from *vm.LTable) *vm.LTable {
	copies := make(map[*vm.LTable]*vm.LTable)
	depth := 0
	var clone func(from *vm.LTable) *vm.LTable
	clone = func(from *vm.LTable) *vm.LTable {
		if out := copies[from]; out != nil {
			return out
		}
		depth++
		if depth > maxNesting {
			t.fail(errNesting)
		}
		t.check(t.l.Context().Err())
		out := new(vm.LTable)
		copies[from] = out
		from.ForEach(func(k, v vm.LValue) {
			if inner, ok := v.(*vm.LTable); ok {
				v = clone(inner)
			}
			out.RawSet(k, v)
		})
		depth--
		return out
	}
	return clone(from)
}

// tables returns the items of a list, which must be tables.
func (t *thread) tables(v vm.LValue) (all []*vm.LTable) {
	list, ok := v.(*vm.LTable)
	for i := 1; ok && i <= list.Len(); i++ {
		var one *vm.LTable
		one, ok = list.RawGetInt(i).(*vm.LTable)
		all = append(all, one)
	}
	if !ok {
		t.fail(errFilterset)
	}
	return all
}

var (
	errFilterset = errors.New("the table is not a filterset: it has no items")
	errNesting   = errors.New("tables are nested too deeply")
)

// filtered returns a filterset of the ids in the filterset src for which one of the clauses is true.
func (t *thread) filtered(clauses, src *vm.LTable) *vm.LTable {
	items, ok := src.RawGetString("items").(*vm.LTable)
	if !ok {
		t.fail(errFilterset)
	}
	return filterset(t.copyTable(items), item("rel_dnf", field{"src", src.RawGetString("root")}, field{"clauses", clauses}))
}

// joined returns the union or intersection of a list of filtersets.
func (t *thread) joined(kind string) *vm.LTable {
	items, srcs := t.concatenated(t.tables(t.table(1)))
	return filterset(items, item(kind, field{"srcs", srcs}))
}

// concatenated returns the items of several filtersets in one list, and a list of the new numbers of the last
// item of each filterset.
func (t *thread) concatenated(list []*vm.LTable) (all, srcs *vm.LTable) {
	all, srcs = new(vm.LTable), new(vm.LTable)
	for _, fs := range list {
		before := vm.LNumber(all.Len())
		for _, given := range t.tables(fs.RawGetString("items")) {
			one := t.copyTable(given)
			for _, field := range []string{"src", "universe"} {
				if n, ok := one.RawGetString(field).(vm.LNumber); ok {
					one.RawSetString(field, n+before)
				}
			}
			if list, ok := one.RawGetString("srcs").(*vm.LTable); ok {
				for k := 1; k <= list.Len(); k++ {
					if n, ok := list.RawGetInt(k).(vm.LNumber); ok {
						list.RawSetInt(k, n+before)
					}
				}
			}
			all.Append(one)
		}
		srcs.Append(vm.LNumber(all.Len() - 1))
	}
	return all, srcs
}

// A set is a set of ids.
type set = view.Set[uint32]

// An evaluator evaluates a filterset.
type evaluator struct {
	*thread

	items []*vm.LTable
	done  []set
	busy  []bool
	depth int // the number of items that are being evaluated
}

// evaluate returns the ids of a filterset.
func (t *thread) evaluate(fs *vm.LTable) []uint32 {
	items := t.tables(fs.RawGetString("items"))
	e := evaluator{thread: t, items: items, done: make([]set, len(items)), busy: make([]bool, len(items))}
	return slices.Collect(e.item(fs.RawGetString("root")).All())
}

// maxItems is the maximum nesting depth of items.
const maxItems = 1000

// item evaluates the item with the given number.
func (e *evaluator) item(number vm.LValue) set {
	n := e.idOf(number)
	if int(n) >= len(e.items) {
		e.fail(fmt.Errorf("the filterset has no item %d", n))
	}
	if e.done[n] != nil {
		return e.done[n]
	}
	if e.busy[n] || e.depth > maxItems {
		e.fail(fmt.Errorf("item %d of the filterset contains itself, or is nested too deeply", n))
	}
	e.check(e.l.Context().Err())
	e.busy[n] = true
	e.depth++
	words := max(1, (e.n+63)/64)
	e.room(uint64(8*words), 1)
	s := make(set, words)
	e.compute(s, e.items[n])
	e.depth--
	e.done[n] = s
	return s
}

// compute adds the ids of an item to s.
func (e *evaluator) compute(s set, one *vm.LTable) {
	part := func(key string) set { return e.item(one.RawGetString(key)) }
	list := func(key string) *vm.LTable {
		list, ok := one.RawGetString(key).(*vm.LTable)
		if !ok {
			e.fail(errFilterset)
		}
		return list
	}
	switch kind := vm.LVAsString(one.RawGetString("type")); kind {
	case "prim_list":
		list := list("value")
		for i := 1; i <= list.Len(); i++ {
			if id := e.idOf(list.RawGetInt(i)); int(id) < e.n {
				s.Add(id)
			}
		}
	case "prim_range":
		first, last := e.idOf(one.RawGetString("start")), e.idOf(one.RawGetString("end"))
		for id := int(first); id < min(int(last)+1, e.n); id++ {
			s.Add(uint32(id))
		}
	case "rel_dnf":
		e.filter(s, part("src"), e.clauses(one))
	case "invert":
		src, universe := part("src"), part("universe")
		for i := range s {
			s[i] = universe[i] &^ src[i]
		}
	case "intersect", "union":
		srcs := list("srcs")
		for i := 1; i <= srcs.Len(); i++ {
			e.check(e.l.Context().Err())
			src := e.item(srcs.RawGetInt(i))
			for k := range s {
				if kind == "union" || i == 1 {
					s[k] |= src[k]
				} else {
					s[k] &= src[k]
				}
			}
		}
	default:
		e.fail(fmt.Errorf("unknown filterset item type %s", kind))
	}
}

// filter adds the ids of src for which all predicates of one of the clauses are true.
func (e *evaluator) filter(s, src set, clauses [][]predicate) {
	for id := range src.All() {
		e.check(e.l.Context().Err())
		for _, clause := range clauses {
			if !slices.ContainsFunc(clause, func(p predicate) bool { return !e.matches(&p, id) }) {
				s.Add(id)
				break
			}
		}
	}
}

// clauses returns the clauses of an item.
func (e *evaluator) clauses(one *vm.LTable) (clauses [][]predicate) {
	for _, clause := range e.tables(one.RawGetString("clauses")) {
		var all []predicate
		for _, one := range e.tables(clause) {
			p, err := newPredicate(one)
			e.check(err)
			all = append(all, p)
		}
		clauses = append(clauses, all)
	}
	return clauses
}

// A predicate compares a field of an entry with a constant.
type predicate struct {
	target string
	want   int          // the required result of the comparison: -1, 0 or 1
	value  format.Value // a text, a boolean, a float or an int64
}

func newPredicate(t *vm.LTable) (p predicate, err error) {
	p.target, err = toText(t.RawGetString("target"))
	if err != nil {
		return p, fmt.Errorf("target: %w", err)
	}
	switch relation := t.RawGetString("relation").String(); relation {
	case "EQ":
	case "LT":
		p.want = -1
	case "GT":
		p.want = 1
	default:
		return p, fmt.Errorf("Bad filter relation %s", relation) //nolint:staticcheck // as ENTRACE has it
	}
	switch v := t.RawGetString("value").(type) {
	case vm.LString:
		p.value = format.StringValue(wire.ValidText(string(v)))
	case vm.LBool:
		p.value = format.BoolValue(bool(v))
	case vm.LNumber:
		p.value = numberFor(p.target, float64(v))
	default:
		return p, fmt.Errorf("Cannot convert value %s to EnValue", debugValue(v)) //nolint:staticcheck // as ENTRACE has it
	}
	if name, ok := strings.CutPrefix(p.target, "meta."); ok && !slices.Contains([]string{"name", "target", "level", "module_path", "file", "line"}, name) {
		return p, fmt.Errorf("Bad meta field %s", name) //nolint:staticcheck // as ENTRACE has it
	}
	return p, nil
}

// numberFor returns a number to compare a field with, converted as ENTRACE does.
func numberFor(target string, f float64) format.Value {
	whole := isInteger(f)
	switch {
	case target == "meta.level" && whole:
		return format.I64Value(int64(uint8(int64(f))))
	case target == "meta.line" && whole:
		return format.I64Value(int64(uint32(int64(f))))
	case target == "meta.line" && math.IsNaN(f):
		return format.I64Value(0)
	case target == "meta.line":
		return format.I64Value(int64(min(max(f, 0), math.MaxUint32)))
	case whole:
		return format.I64Value(int64(f))
	}
	return format.FloatValue(f)
}

// matches tests an entry against a predicate.
func (t *thread) matches(p *predicate, id uint32) bool {
	v, ok := t.field(p, id)
	kind := v.Kind()
	if kind == format.KindU64 || kind == format.KindU128 || kind == format.KindI128 {
		kind = format.KindI64
	}
	if !ok || kind != p.value.Kind() {
		return false
	}
	n := 0
	switch kind {
	case format.KindString:
		n = strings.Compare(v.Text(), p.value.Text())
	case format.KindBool:
		n = boolOrder(v.Bool()) - boolOrder(p.value.Bool())
	case format.KindFloat:
		n = cmp.Compare(totalOrder(v.Float()), totalOrder(p.value.Float()))
	case format.KindI64: // of a larger number, ENTRACE compares the low 64 bits
		_, a := v.Words()
		_, b := p.value.Words()
		n = cmp.Compare(int64(a), int64(b))
	}
	return n == p.want
}

// field returns the field of an entry that a predicate compares.
func (t *thread) field(p *predicate, id uint32) (v format.Value, ok bool) {
	isMessage := p.target == messageName && p.value.Kind() == format.KindString
	if !isMessage && !strings.HasPrefix(p.target, "meta.") {
		return t.attribute(id, p.target)
	}
	e := t.entry(id)
	m := &e.Metadata
	text := format.Some(m.Name)
	switch p.target {
	case messageName:
		text = e.Message
	case "meta.target":
		text.Value = m.Target
	case "meta.module_path":
		text = m.ModulePath
	case "meta.file":
		text = m.File
	case "meta.level": // levels begin at 0 here, but at 1 in en_metadata_level
		return format.I64Value(int64(m.Level)), true
	case "meta.line":
		return format.I64Value(int64(m.Line.Value)), m.Line.Valid
	}
	return format.StringValue(text.Value), text.Valid
}

func boolOrder(b bool) int {
	if b {
		return 1
	}
	return 0
}

// totalOrder maps floats to numbers in the total order of IEEE 754: -0 is less than 0, a positive
// NaN is greater than all numbers, and a negative NaN is less than all numbers.
func totalOrder(f float64) int64 {
	n := int64(math.Float64bits(f))
	return n ^ int64(uint64(n>>63)>>1)
}
