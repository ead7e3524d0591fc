package lua

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

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
	set("en_filterset_materialize", func() vm.LValue {
		set, err := t.evaluate(t.table(1))
		t.check(err)
		return idList(slices.Collect(set.All()))
	})
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
		if depth++; depth > maxNesting {
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

// tablesIn returns the items of a list. It ends with errFilterset if v is not a list, or at an item that is not a
// table.
func tablesIn(v vm.LValue) iter.Seq2[*vm.LTable, error] {
	return func(yield func(*vm.LTable, error) bool) {
		list, ok := v.(*vm.LTable)
		for i := 1; ok && i <= list.Len(); i++ {
			var one *vm.LTable
			if one, ok = list.RawGetInt(i).(*vm.LTable); ok && !yield(one, nil) {
				return
			}
		}
		if !ok {
			yield(nil, errFilterset)
		}
	}
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
	var list []*vm.LTable
	for fs, err := range tablesIn(t.table(1)) {
		t.check(err)
		list = append(list, fs)
	}
	items, srcs := t.concatenated(list)
	return filterset(items, item(kind, field{"srcs", srcs}))
}

// concatenated returns the items of several filtersets in one list, and a list of the new numbers of the last
// item of each filterset.
func (t *thread) concatenated(list []*vm.LTable) (all, srcs *vm.LTable) {
	all, srcs = new(vm.LTable), new(vm.LTable)
	for _, fs := range list {
		before := all.Len()
		for given, err := range tablesIn(fs.RawGetString("items")) {
			t.check(err)
			one := t.copyTable(given)
			fields := []string{"src", "universe"}
			if t.options.Upstream {
				fields = fields[:1]
			}
			for _, field := range fields {
				if n, ok := one.RawGetString(field).(vm.LNumber); ok {
					one.RawSetString(field, n+vm.LNumber(before))
				}
			}
			if list, ok := one.RawGetString("srcs").(*vm.LTable); ok {
				for k := 1; k <= list.Len(); k++ {
					if n, ok := list.RawGetInt(k).(vm.LNumber); ok {
						list.RawSetInt(k, n+vm.LNumber(before))
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
	depth int   // the number of items that are being evaluated
	n     int   // all ids are less than n
	size  int64 // the size of all sets in bytes
}

// evaluate returns the set of ids of a filterset.
func (t *thread) evaluate(fs *vm.LTable) (set, error) {
	e := evaluator{thread: t, n: t.n}
	for one, err := range tablesIn(fs.RawGetString("items")) {
		if err != nil {
			return nil, err
		}
		e.items = append(e.items, one)
	}
	e.done, e.busy = make([]set, len(e.items)), make([]bool, len(e.items))
	if t.options.Upstream {
		if err := e.widen(); err != nil {
			return nil, err
		}
	}
	return e.item(fs.RawGetString("root"))
}

// widen increases e.n if a range ends after the last entry of the file, because ENTRACE returns such ids.
func (e *evaluator) widen() error {
	for _, one := range e.items {
		if one.RawGetString("type") != vm.LString("prim_range") {
			continue
		}
		if end, err := toID(one.RawGetString("end")); err == nil {
			if end >= 1<<30 {
				return fmt.Errorf("the range ends at %d: %w", end, errRange)
			}
			e.n = max(e.n, int(end)+1)
		}
	}
	return nil
}

// maxItems is the maximum nesting depth of items.
const maxItems = 1000

// item evaluates the item with the given number.
func (e *evaluator) item(number vm.LValue) (set, error) {
	n, err := toID(number)
	if err != nil {
		return nil, fmt.Errorf("invalid item number: %w", err)
	}
	if int(n) >= len(e.items) {
		return nil, fmt.Errorf("the filterset has no item %d", n)
	}
	if e.done[n] != nil {
		return e.done[n], nil
	}
	if e.busy[n] || e.depth > maxItems {
		return nil, fmt.Errorf("item %d of the filterset contains itself, or is nested too deeply", n)
	}
	e.busy[n] = true
	e.depth++
	s, err := e.compute(e.items[n])
	e.depth--
	e.busy[n], e.done[n] = false, s
	return s, err
}

// newSet returns an empty set, or an error if the sets use too much memory or the run was canceled.
func (e *evaluator) newSet() (set, error) {
	s := make(set, max(1, (e.n+63)/64))
	if e.size += int64(8 * len(s)); e.size > e.options.MaxMemory {
		return nil, ErrMemory
	}
	return s, e.l.Context().Err()
}

func (e *evaluator) compute(one *vm.LTable) (set, error) {
	kind := vm.LVAsString(one.RawGetString("type"))
	switch kind {
	case "prim_list":
		list, ok := one.RawGetString("value").(*vm.LTable)
		if !ok {
			return nil, errFilterset
		}
		s, err := e.newSet()
		if err != nil {
			return nil, err
		}
		for i := 1; i <= list.Len(); i++ {
			id, err := toID(list.RawGetInt(i))
			if err != nil {
				return nil, err
			}
			if int(id) < e.n {
				s.Add(id)
			}
		}
		return s, nil
	case "prim_range":
		first, err := toID(one.RawGetString("start"))
		if err != nil {
			return nil, err
		}
		last, err := toID(one.RawGetString("end"))
		if err != nil {
			return nil, err
		}
		s, err := e.newSet()
		if err != nil {
			return nil, err
		}
		for id, end := int64(first), min(int64(last)+1, int64(e.n)); id < end; {
			if id%64 == 0 && id+64 <= end {
				s[id/64] = math.MaxUint64
				id += 64
				continue
			}
			s.Add(uint32(id))
			id++
		}
		return s, nil
	case "rel_dnf":
		return e.dnf(one)
	case "invert":
		src, err := e.item(one.RawGetString("src"))
		if err != nil {
			return nil, err
		}
		universe, err := e.item(one.RawGetString("universe"))
		if err != nil {
			return nil, err
		}
		s, err := e.newSet()
		if err != nil {
			return nil, err
		}
		for i := range s {
			s[i] = universe[i] &^ src[i]
		}
		return s, nil
	case "intersect", "union":
		return e.combine(one, kind == "union" && !e.options.Upstream)
	}
	return nil, fmt.Errorf("unknown filterset item type %s", kind)
}

// combine returns the union or the intersection of the sources of an item. The result is empty if there are no
// sources.
func (e *evaluator) combine(one *vm.LTable, union bool) (set, error) {
	srcs, ok := one.RawGetString("srcs").(*vm.LTable)
	if !ok {
		return nil, errFilterset
	}
	s, err := e.newSet()
	if err != nil {
		return nil, err
	}
	for i := 1; i <= srcs.Len(); i++ {
		if err := e.l.Context().Err(); err != nil {
			return nil, err
		}
		src, err := e.item(srcs.RawGetInt(i))
		if err != nil {
			return nil, err
		}
		for k := range s {
			if union || i == 1 {
				s[k] |= src[k]
			} else {
				s[k] &= src[k]
			}
		}
	}
	return s, nil
}

// A predicate compares a field of an entry with a constant.
type predicate struct {
	name    string
	meta    bool // the field is in the metadata of the entry and is not an attribute
	want    int  // the required result of the comparison: -1, 0 or 1
	kind    format.Kind
	text    string
	encoded []byte // the text as an encoded attribute value
	integer int64
	float   float64
	boolean bool
}

func newPredicate(t *vm.LTable) (p predicate, err error) {
	if p.name, err = toText(t.RawGetString("target")); err != nil {
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
		p.kind, p.text = format.KindString, wire.ValidText(string(v))
		p.encoded = wire.AppendString([]byte{wire.KindString}, p.text)
	case vm.LBool:
		p.kind, p.boolean = format.KindBool, bool(v)
	case vm.LNumber:
		if p.kind, p.float = format.KindFloat, float64(v); isInteger(p.float) {
			p.kind, p.integer = format.KindI64, int64(v)
		}
	default:
		return p, fmt.Errorf("Cannot convert value %s to EnValue", debugValue(v)) //nolint:staticcheck // as ENTRACE has it
	}
	if name, ok := strings.CutPrefix(p.name, "meta."); ok {
		p.name, p.meta = name, true
		if !slices.Contains([]string{"name", "target", "level", "module_path", "file", "line"}, name) {
			return p, fmt.Errorf("Bad meta field %s", name) //nolint:staticcheck // as ENTRACE has it
		}
	}
	return p, nil
}

// dnf returns the ids of the item's source for which one of the item's clauses is true.
func (e *evaluator) dnf(one *vm.LTable) (set, error) {
	src, err := e.item(one.RawGetString("src"))
	if err != nil {
		return nil, err
	}
	var clauses [][]predicate
	for clause, err := range tablesIn(one.RawGetString("clauses")) {
		if err != nil {
			return nil, err
		}
		var all []predicate
		for one, err := range tablesIn(clause) {
			if err != nil {
				return nil, err
			}
			p, err := newPredicate(one)
			if err != nil {
				return nil, err
			}
			all = append(all, p)
		}
		clauses = append(clauses, all)
	}
	return e.filter(src, clauses)
}

// perPart is the number of consecutive uint64 words of a set that a goroutine processes at a time.
const perPart = 1 << 10

// filter returns the ids of src for which one of the clauses is true. It uses all cores.
func (e *evaluator) filter(src set, clauses [][]predicate) (set, error) {
	out, err := e.newSet()
	if err != nil {
		return nil, err
	}
	parts := make(chan int)
	var wait sync.WaitGroup
	var mu sync.Mutex
	var failed error
	ctx := e.l.Context()
	for range min(runtime.GOMAXPROCS(0), 1+len(src)/perPart) {
		wait.Go(func() {
			m := matcher{clauses: clauses}
			m.read.init(e.file, e.options.Upstream)
			for from := range parts {
				err := ctx.Err()
				if err == nil {
					err = m.part(src, out, from)
				}
				if err != nil {
					mu.Lock()
					failed = cmp.Or(failed, err)
					mu.Unlock()
				}
			}
		})
	}
	for from := 0; from < len(src); from += perPart {
		parts <- from
	}
	close(parts)
	wait.Wait()
	return out, failed
}

// A matcher tests entries against clauses. Each goroutine has its own.
type matcher struct {
	read    reader
	clauses [][]predicate
}

// part tests the ids in perPart words of src, starting at word from, and adds matching ids to out.
func (m *matcher) part(src, out set, from int) error {
	for id := range src[from:min(from+perPart, len(src))].All() {
		id += uint32(64 * from)
		ok, err := m.matches(id)
		if err != nil {
			return err
		}
		if ok {
			out.Add(id)
		}
	}
	return nil
}

func (m *matcher) matches(id uint32) (bool, error) {
	b, err := m.read.raw(id)
	if err != nil {
		return false, err
	}
	for _, clause := range m.clauses {
		all := true
		for i := range clause {
			ok, known := clause[i].quick(b, m.read.entries.Columns())
			if !known {
				e, err := m.read.full(id)
				if err != nil {
					return false, err
				}
				ok = clause[i].matches(e)
			}
			if all = ok; !all {
				break
			}
		}
		if all {
			return true, nil
		}
	}
	return false, nil
}

// quick tests an encoded entry against the predicate. It returns false for known if the entry must be decoded for
// the test.
func (p *predicate) quick(b []byte, columns bool) (ok, known bool) {
	if p.meta {
		return false, false
	}
	if p.name == messageName && p.kind == format.KindString {
		var l wire.Layout
		if l.Parse(b, 0) > len(b) {
			return false, false
		}
		if b[l.Message] == 0 {
			return false, true
		}
		return bytes.Compare(wire.TextAt(b, l.Message+1, l.Name), []byte(p.text)) == p.want, true
	}
	at, found := wire.FindAttribute(b, columns, p.name)
	if !found {
		return false, false
	}
	if at == wire.Nowhere {
		return false, true
	}
	switch kind := b[at]; {
	case p.kind == format.KindString:
		if kind != wire.KindString {
			return false, true
		}
		if p.want == 0 {
			return bytes.HasPrefix(b[at:], p.encoded), true
		}
		return false, false
	case p.kind == format.KindI64 && kind == wire.KindU64:
		n, ok := rawUint(b, at+1)
		return cmp.Compare(int64(n), p.integer) == p.want, ok
	case p.kind == format.KindI64 && kind == wire.KindI64:
		n, ok := rawUint(b, at+1)
		return cmp.Compare(unzigzag(n), p.integer) == p.want, ok
	case kind <= wire.KindBytes, p.kind == format.KindI64 && kind <= wire.KindFloat:
		return false, true // the attribute is of another kind
	}
	return false, false
}

// matches tests a decoded entry against the predicate.
func (p *predicate) matches(e *format.TraceEntry) bool {
	switch {
	case p.meta:
		return p.matchesMeta(e)
	case p.name == messageName && p.kind == format.KindString:
		return e.Message.Valid && p.isText(e.Message.Value)
	}
	for i := range e.Attributes {
		if e.Attributes[i].Name == p.name {
			return p.isValue(e.Attributes[i].Value)
		}
	}
	return false
}

func (p *predicate) isText(s string) bool {
	return p.kind == format.KindString && strings.Compare(s, p.text) == p.want
}

func (p *predicate) isValue(v format.Value) bool {
	switch kind := v.Kind(); {
	case kind == format.KindString:
		return p.isText(v.Text())
	case kind != p.kind && (p.kind != format.KindI64 || kind < format.KindU64):
		return false
	case p.kind == format.KindBool:
		return boolOrder(v.Bool())-boolOrder(p.boolean) == p.want
	case p.kind == format.KindFloat:
		return cmp.Compare(totalOrder(v.Float()), totalOrder(p.float)) == p.want
	case p.kind == format.KindI64:
		_, low := v.Words()
		return cmp.Compare(int64(low), p.integer) == p.want
	}
	return false
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

func (p *predicate) matchesMeta(e *format.TraceEntry) bool {
	m := &e.Metadata
	switch p.name {
	case "name":
		return p.isText(m.Name)
	case "target":
		return p.isText(m.Target)
	case "module_path":
		return m.ModulePath.Valid && p.isText(m.ModulePath.Value)
	case "file":
		return m.File.Valid && p.isText(m.File.Value)
	case "level": // levels begin at 0 here, but at 1 in en_metadata_level
		return p.kind == format.KindI64 && cmp.Compare(uint8(m.Level), uint8(p.integer)) == p.want
	}
	if !m.Line.Valid {
		return false
	}
	switch p.kind {
	case format.KindI64:
		return cmp.Compare(m.Line.Value, uint32(p.integer)) == p.want
	case format.KindFloat:
		line := p.float
		if math.IsNaN(line) {
			line = 0
		}
		return cmp.Compare(m.Line.Value, uint32(min(max(math.Trunc(line), 0), math.MaxUint32))) == p.want
	}
	return false
}
