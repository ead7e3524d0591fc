package view_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/view"
)

// A modelRow is a row according to the documentation of the package.
type modelRow struct {
	file      int
	id        uint32
	role      view.Role
	parent    int
	start     int64
	timed     bool
	took      int64 // -1: none
	trace     string
	span      string
	level     format.Level
	status    string
	kind      string
	name      string
	message   string
	resource  int // the row of the resource; 0: none
	missing   bool
	continues bool
	wants     string
	whole     bool // the span's own entry has the duration
	failed    bool
}

// A model is a simple implementation of a view of several files.
type model struct {
	rows     []modelRow
	began    []modelRow              // the rows without their ends
	ends     map[int]func(*modelRow) // for each row, a function that applies its last end
	at       map[[2]uint32]int       // rows by file and entry, including folded entries
	order    []int
	depth    map[int]int
	services map[int]string // by the row of the resource
	excepted []int          // the rows that have exceptions
}

// attributesOf returns the first attribute of each name.
func attributesOf(e *format.TraceEntry) map[string]format.Value {
	all := make(map[string]format.Value)
	for _, a := range e.Attributes {
		if _, has := all[a.Name]; !has {
			all[a.Name] = a.Value
		}
	}
	return all
}

func isID(s string, digits int) bool {
	return len(s) == digits && strings.Trim(strings.ToLower(s), "0123456789abcdef") == ""
}

func emptyModel() *model {
	return &model{at: make(map[[2]uint32]int), depth: make(map[int]int), ends: make(map[int]func(*modelRow)), services: make(map[int]string)}
}

func newModel(t testing.TB, files []*format.File) *model {
	m := emptyModel()
	for k, f := range files {
		for id := range uint32(f.Len()) {
			e, err := f.Entry(id)
			must(t, err)
			m.add(k, id, e)
		}
	}
	m.hang(m.join(len(files)))
	m.sort(0, 0)
	return m
}

func (m *model) add(k int, id uint32, e *format.TraceEntry) {
	if id == 0 && k > 0 {
		m.at[[2]uint32{uint32(k), 0}] = 0
		return
	}
	a := attributesOf(e)
	r := modelRow{file: k, id: id, took: -1, level: e.Metadata.Level, name: e.Metadata.Name, kind: "internal", status: "unset"}
	parent := 0
	if id > 0 {
		parent = m.at[[2]uint32{uint32(k), e.Parent}]
	}
	r.parent = parent
	if v, ok := a[format.AttrTime]; ok {
		if n, ok := v.I64(); ok {
			r.start, r.timed = n, n != math.MinInt64
		} else if _, ok := v.U64(); ok {
			r.start, r.timed = math.MaxInt64, true
		}
	}
	if d, ok := a[format.AttrDuration]; ok {
		if n, ok := d.U64(); ok {
			r.took = int64(min(n, math.MaxInt64))
		}
	}
	span := strings.ToLower(a[format.AttrSpanID].Text())
	hasSpan := isID(span, 16)
	status, hasStatus := a[mapping.AttrStatusCode]
	statusOf := cmp.Or(map[string]string{"OK": "ok", "ERROR": "error"}[status.Text()], "unset")
	kind := a[mapping.AttrKind].Text()
	_, hasKind := a[mapping.AttrKind]
	if !slices.Contains([]string{"unspecified", "internal", "server", "client", "producer", "consumer"}, kind) {
		kind = "internal"
	}
	r.continues = a[mapping.AttrContinued].Bool()
	if hasSpan && !r.timed && e.Metadata.Name == format.NameSpanEnd && m.rows != nil {
		isRaw := m.rows[parent].file == k && m.rows[parent].id == e.Parent
		if isRaw && m.rows[parent].role == view.RoleSpan && e.Parent > 0 {
			// Only the last end counts: discard the fields of earlier ends.
			s := &m.rows[parent]
			*s = m.began[parent]
			took := r.took
			end := func(s *modelRow) {
				if e.Message.Valid {
					s.name = e.Message.Value
				}
				if hasStatus {
					if status.Text() != "ERROR" {
						s.level = format.LevelInfo
					}
					s.status = statusOf
				}
				if e.Metadata.Level == format.LevelError {
					s.level = format.LevelError
				}
				if hasKind {
					s.kind = kind
				}
				if took >= 0 {
					s.took = took
				}
			}
			end(s)
			m.ends[parent] = end
			m.at[[2]uint32{uint32(k), id}] = parent
			return
		}
	}
	if hasKind {
		r.kind = kind
	}
	r.status = statusOf
	_, isLink := a[mapping.AttrLinkTraceID]
	r.message = e.Message.Value
	switch {
	case id == 0:
		r.role = view.RoleRoot
	case e.Message.Valid && strings.HasPrefix(e.Metadata.Name, "event"):
		r.role = view.RoleLog
		r.wants = span
	case hasSpan && !e.Message.Valid && r.timed:
		r.role = view.RoleSpan
		r.timed = r.start != 0
		r.span = span
		r.wants = strings.ToLower(a[format.AttrParentSpanID].Text())
	case e.Parent == 0 && e.Metadata.Name == format.NameResource:
		r.role = view.RoleResource
	case e.Parent == 0 && strings.HasPrefix(e.Metadata.Name, "entrace."):
		r.role = view.RoleRecorder
	case a[mapping.AttrEvent].Bool():
		r.role = view.RoleEvent
		if e.Metadata.Name == "exception" {
			m.excepted = append(m.excepted, parent)
		}
	case isLink && e.Metadata.Name == mapping.NameLink:
		r.role = view.RoleLink
	}
	if !isID(r.wants, 16) {
		r.wants = ""
	}
	_, r.whole = a[format.AttrDuration]
	if id > 0 {
		r.trace, r.resource = m.rows[parent].trace, m.rows[parent].resource
	}
	if s := strings.ToLower(a[format.AttrTraceID].Text()); isID(s, 32) {
		r.trace = s
		if strings.Trim(s, "0") == "" {
			r.trace = ""
		}
	}
	if r.role == view.RoleResource {
		r.resource = len(m.rows)
		m.services[r.resource] = r.message
		if s, ok := a["service.name"]; ok {
			m.services[r.resource] = s.String()
		}
	}
	m.at[[2]uint32{uint32(k), id}] = len(m.rows)
	m.rows = append(m.rows, r)
	m.began = append(m.began, r)
}

// find returns the row of the span that row i names by its id, or -1 if there is none.
func (m *model) find(i int, span string, half bool) int {
	best := -1
	for k := range m.rows {
		r := &m.rows[k]
		if r.role != view.RoleSpan || r.trace != m.rows[i].trace || r.span != span {
			continue
		}
		switch {
		case half && r.file == m.rows[i].file:
		case half:
			if !r.continues && (best < 0 || m.rows[best].continues) || best < 0 && k < i {
				best = k
			}
		case r.file == m.rows[i].file:
			return k
		case best < 0:
			best = k
		}
	}
	return best
}

// join returns the row of the first half for each later half of a span.
func (m *model) join(files int) map[int]int {
	found := make(map[int]int)
	for i := range m.rows {
		if r := &m.rows[i]; files > 1 && r.role == view.RoleSpan && r.continues && !m.began[i].whole {
			if first := m.find(i, r.span, true); first >= 0 && first != i {
				found[i] = first
			}
		}
	}
	for i := range m.rows {
		r := &m.rows[i]
		if r.wants == "" || r.trace == "" || strings.Trim(r.wants, "0") == "" {
			continue
		}
		r.missing = m.find(i, r.wants, false) < 0 && m.rows[r.parent].role != view.RoleSpan
	}
	return found
}

// hang joins halves and moves rows below the spans that they name.
func (m *model) hang(found map[int]int) {
	wanted := make([]int, len(m.rows))
	for i := range m.rows {
		wanted[i] = -1
		if r := &m.rows[i]; r.wants != "" {
			if to := m.find(i, r.wants, false); to >= 0 && to != i {
				wanted[i] = to
			}
		}
	}
	halves := make(map[int]int)
	firstOf := func(i int) int {
		if first, half := halves[i]; half {
			return first
		}
		return i
	}
	last := make(map[int]int)
	for i := range m.rows {
		first, half := found[i]
		first = firstOf(first)
		if !half || first == i {
			continue
		}
		halves[i] = first
		m.rows[i].role = view.RoleFolded
		if l, ok := last[first]; !ok || !m.ended(l) || m.ended(i) && i > l {
			last[first] = i
		}
	}
	for first, half := range last {
		if m.ended(half) {
			f, b := &m.rows[first], m.began[first]
			f.level, f.status, f.kind, f.name, f.took = b.level, b.status, b.kind, b.name, b.took
			if e := m.ends[half]; e != nil {
				e(f)
			}
		}
	}
	excepted := make(map[int]bool)
	for _, i := range m.excepted {
		excepted[firstOf(i)] = true
	}
	for i := range m.rows {
		r := &m.rows[i]
		r.failed = r.role == view.RoleSpan && (r.status == "error" || r.status == "unset" && excepted[i])
	}
	moves := make(map[int]int)
	for i := 1; i < len(m.rows); i++ {
		r := &m.rows[i]
		if first, half := halves[r.parent]; half {
			moves[i] = first
		}
		if to := wanted[i]; to >= 0 && to != r.parent && firstOf(to) != r.parent && r.role != view.RoleFolded {
			moves[i] = firstOf(to)
		}
	}
	m.move(moves, firstOf)
	m.move(m.belowShared(), firstOf)
}

// belowShared returns the rows that move because a client and a server share a span, and their new parents.
func (m *model) belowShared() map[int]int {
	type half struct {
		client  int
		service string
	}
	clients, servers := make(map[int]int), make(map[half]int)
	service := func(i int) string { return m.services[m.rows[i].resource] }
	for i := range m.rows {
		r := &m.rows[i]
		client := slices.IndexFunc(m.rows, func(c modelRow) bool {
			return c.role == view.RoleSpan && c.kind == "client" && c.trace == r.trace && c.span == r.span
		})
		if r.role != view.RoleSpan || r.kind != "server" || r.trace == "" || client < 0 {
			continue
		}
		clients[i] = client
		if of := (half{client, service(i)}); servers[of] == 0 {
			servers[of] = i
		}
	}
	moves := make(map[int]int)
	for i := range m.rows {
		up := m.rows[i].parent
		client, isServer := clients[up]
		to := servers[half{up, service(i)}]
		if isServer && service(i) != service(up) {
			to = servers[half{client, service(i)}]
			if to == 0 && service(i) == service(client) {
				to = client
			}
		}
		if of, is := clients[i]; is {
			to = of
		}
		if role := m.rows[i].role; to != 0 && to != up && (role == view.RoleSpan || role == view.RoleLog) {
			moves[i] = to
		}
	}
	return moves
}

// move makes rows the children of other rows.
func (m *model) move(moves map[int]int, firstOf func(int) int) {
	parent := make([]int, len(m.rows))
	for i := range parent {
		parent[i] = m.rows[i].parent
		if _, is := moves[i]; is {
			parent[i] = -1 // removed from the tree for now
		}
	}
	below := func(i, top int) bool {
		for i > 0 && i != top {
			i = parent[i]
		}
		return i == top
	}
	for i := range m.rows {
		to, is := moves[i]
		if !is {
			continue
		}
		if below(to, i) {
			to = firstOf(m.rows[i].parent)
		}
		if below(to, i) {
			to = 0
		}
		parent[i] = to
	}
	for i := range parent {
		m.rows[i].parent = parent[i]
	}
	if len(moves) == 0 {
		return
	}
	for i := range m.rows {
		for up := i; m.rows[i].resource == 0 && up != 0; {
			up = parent[up]
			m.rows[i].resource = m.rows[up].resource
		}
	}
}

func (m *model) ended(i int) bool { return m.ends[i] != nil }

// sort appends row i and all rows below it to m.order.
func (m *model) sort(i, depth int) {
	m.order = append(m.order, i)
	m.depth[i] = depth
	var kids []int
	for k := 1; k < len(m.rows); k++ {
		if m.rows[k].parent == i && m.rows[k].role != view.RoleFolded {
			kids = append(kids, k)
		}
	}
	times := make(map[int]int64)
	last := int64(math.MinInt64)
	for _, k := range kids {
		switch r := &m.rows[k]; {
		case r.role == view.RoleLink:
			times[k] = math.MinInt64
			continue
		case r.timed:
			last = r.start
		}
		times[k] = last
	}
	isLink := func(k int) int {
		if m.rows[k].role == view.RoleLink {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(kids, func(a, b int) int {
		return cmp.Or(cmp.Compare(isLink(a), isLink(b)), cmp.Compare(times[a], times[b]))
	})
	for _, k := range kids {
		m.sort(k, depth+1)
	}
}

// compare reports all differences between the model and v.
func (m *model) compare(t *testing.T, v *view.View) {
	t.Helper()
	expect.MustEqual(t, v.Len(), len(m.rows), "rows")
	for i := range m.rows {
		want := m.rows[i]
		r := view.Row(i)
		file, id := v.ID(r)
		flags := v.Flags(r)
		name := v.Name(r)
		start, timed := v.Start(r)
		if !timed {
			start = 0
		}
		if !want.timed {
			want.start = 0
		}
		took := int64(-1)
		if d, ok := v.Duration(r); ok {
			took = int64(d)
		}
		if want.role != view.RoleSpan {
			want.took = -1
		}
		if e, err := v.Entry(r); err != nil {
			t.Error(err)
		} else if says, ok := e.Attribute(format.AttrDuration); want.role == view.RoleSpan && ok != (took >= 0) {
			t.Errorf("row %d took %d, but its entry says %s", i, took, says)
		} else if got := v.Metadata(r); got != e.Metadata {
			t.Errorf("row %d has the metadata %+v, its entry %+v", i, got, e.Metadata)
		}
		message, _ := v.Message(r)
		trace := fmt.Sprintf("%x", v.TraceID(r))
		if want.trace == "" {
			want.trace = strings.Repeat("0", 32)
		}
		got := modelRow{
			file: file, id: id, role: flags.Role(), parent: int(v.Parent(r)), start: start, timed: timed, took: took, trace: trace,
			level: flags.Level(), name: name, message: message, resource: int(v.Resource(r)), missing: flags.Missing(),
			failed: flags.Failed(),
		}
		if want.role == view.RoleSpan {
			got.status, got.kind = flags.Status(), flags.Kind()
		} else {
			want.status, want.kind = got.status, got.kind
		}
		want.span, want.wants, want.whole, want.continues = "", "", false, false
		if want.role == view.RoleFolded {
			got.parent, want.parent = 0, 0
			got.missing, want.missing = false, false
			got.resource, want.resource = 0, 0
		}
		if service := v.Service(r); want.role != view.RoleFolded && service != m.services[want.resource] {
			t.Errorf("row %d is of service %q, want %q", i, service, m.services[want.resource])
		}
		expect.Equal(t, got, want, "row %d", i)
		if r2, ok := v.Row(file, id); !ok || r2 != r {
			t.Errorf("Row(%d, %d) is %d, %t; want %d", file, id, r2, ok, r)
		}
	}
	var order []int
	err := v.Walk(0, func(r view.Row, depth int, last bool) error {
		expect.Equal(t, depth, m.depth[int(r)], "row %d has depth", r)
		siblings := v.Children(v.Parent(r))
		expect.Equal(t, r == 0 || siblings[len(siblings)-1] == r, last, "row %d: last child", r)
		order = append(order, int(r))
		return nil
	})
	if err != nil || !slices.Equal(order, m.order) {
		t.Errorf("the order is %v, want %v (%v)", order, m.order, err)
	}
}
