package query

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"slices"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/columns"
	"github.com/entrace-go/entrace/internal/mapping"
	"github.com/entrace-go/entrace/view"
)

// An Overview is a first look at a trace that nobody knows yet.
type Overview struct {
	// First and Last are the times between which everything happened, in nanoseconds since
	// 1970; Timed is false if nothing has a time.
	First, Last         int64
	Timed               bool
	Spans, Logs, Events int
	Errors, Open        int // of the spans and log records; and of the spans, those that have not ended
	// Services has a line for each service that has spans or log records, with those columns:
	// service, spans, logs, errors.
	Services *Table
	// Slowest are the spans that took longest of those that are below no other span, and OldestOpen
	// those that have not ended and began first.
	Slowest, OldestOpen []view.Row
	// Self is a table as [Summary] makes it, of the names whose spans took most time themselves.
	Self *Table
	// Patterns are what errors say most often; OtherErrors is how many have none of the patterns
	// that are kept. An exception that passed through several spans is one error here.
	Patterns    []ErrorPattern
	OtherErrors int
	// Gaps are the longest times in which nothing began, ended or was logged.
	Gaps []Gap
}

// An ErrorPattern stands for errors whose texts have it in common.
type ErrorPattern struct {
	Pattern string // with <number>, <hex>, <uuid> and <text> for what differs
	Role    view.Role
	Count   int
	First   view.Row // the first of them
}

// A Gap is a time in which nothing happened.
type Gap struct {
	From, To      int64
	Before, After view.Row // what happened last, and what did then
}

// maxPatterns is how many patterns of errors are told apart.
const maxPatterns = 10_000

// Top returns what is most conspicuous in rows of a view, of each kind no more than limit.
func Top(ctx context.Context, v *view.View, rows view.Set[view.Row], limit int) (*Overview, error) {
	o := &Overview{First: math.MaxInt64, Last: math.MinInt64}
	type sums struct{ spans, logs, errors int64 }
	services := make(map[uint16]*sums)
	slowest := best{limit: limit}
	requests := outermost{v: v, rows: rows, looked: v.NewSet(), is: v.NewSet()}
	open := best{limit: limit}
	var errs []view.Row
	for k := range v.Columns().Blocks() {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		b := v.Columns().Block(k)
		for w, word := range rows[k*words64 : (k+1)*words64] {
			for ; word != 0; word &= word - 1 {
				i := w*64 + bits.TrailingZeros64(word)
				r, f := view.Row(b.First)+view.Row(i), view.Flags(b.Flags[i])
				s := services[b.Resource[i]]
				if s == nil {
					s = new(sums)
					services[b.Resource[i]] = s
				}
				switch f.Role() {
				case view.RoleSpan:
					o.Spans++
					s.spans++
					switch d := b.Duration[i]; {
					case d != columns.NoDuration:
						if slowest.takes(d) && !requests.above(r) {
							slowest.add(d, r)
						}
					case f.Open():
						o.Open++
						open.add(-b.Start[i], r)
					}
				case view.RoleLog:
					o.Logs++
					s.logs++
				case view.RoleEvent:
					o.Events++
				case view.RoleOther:
					if v.Role(view.Row(b.Parent[i])) == view.RoleRecorder {
						if IsError(f) { // why the process died
							o.Errors++
							errs = append(errs, r)
						}
						continue // of no service, and maybe of another time
					}
				default:
					continue
				}
				if at := b.Start[i]; at != columns.NoTime {
					o.Timed = true
					o.First, o.Last = min(o.First, at), max(o.Last, endOf(&b, i))
				}
				if IsError(f) {
					o.Errors++
					s.errors++
					errs = append(errs, r)
				}
			}
		}
	}
	o.Slowest, o.OldestOpen = slowest.rows(), open.rows()
	byName := make(map[string]*sums)
	resources := v.Columns().Resources()
	for code, s := range services {
		name := ""
		if int(code) < len(resources) {
			name = v.Service(view.Row(resources[code]))
		}
		if all := byName[name]; all != nil {
			all.spans, all.logs, all.errors = all.spans+s.spans, all.logs+s.logs, all.errors+s.errors
		} else {
			byName[name] = s
		}
	}
	o.Services = &Table{Columns: []string{"service", "spans", "logs", "errors"}, groups: 1}
	for name, s := range byName {
		if s.spans == 0 && s.logs == 0 {
			continue // it has nothing but what a recorder says, such as why the process died
		}
		o.Services.Lines = append(o.Services.Lines, []Value{stringValue(name), intValue(s.spans), intValue(s.logs), intValue(s.errors)})
	}
	slices.SortFunc(o.Services.Lines, func(a, b []Value) int {
		return cmp.Or(cmp.Compare(b[3].n, a[3].n), cmp.Compare(a[0].s, b[0].s))
	})
	var err error
	if o.Self, err = Summary(ctx, v, rows); err == nil {
		err = o.Self.Sort("self")
		o.Self.Lines = o.Self.Lines[:min(limit, len(o.Self.Lines))]
	}
	if err == nil {
		err = o.patterns(ctx, v, rows, errs, limit)
	}
	if o.Timed {
		o.gaps(v, rows, limit)
	}
	return o, err
}

// IsError reports whether a row counts as an error: a span that failed, or anything of level error
// but an event, which says why its span failed.
func IsError(f view.Flags) bool {
	return f.Failed() || f.Level() >= format.LevelError && f.Role() != view.RoleEvent
}

// outermost tells requests from what is below one, and looks at each row once.
type outermost struct {
	v      *view.View
	rows   view.Set[view.Row]
	looked view.Set[view.Row] // rows of which is says
	is     view.Set[view.Row] // whether they, or a row above them, are a span of the rows
}

// above reports whether a span of the rows is above row r.
func (x *outermost) above(r view.Row) bool {
	up, is := x.v.Parent(r), false
	for ; up != 0 && !is && !x.looked.Has(up); up = x.v.Parent(up) {
		is = x.v.Role(up) == view.RoleSpan && x.rows.Has(up)
	}
	is = is || x.is.Has(up)
	for r = x.v.Parent(r); r != up; r = x.v.Parent(r) {
		if x.looked.Add(r); is {
			x.is.Add(r)
		}
	}
	return is
}

// SlowestPart returns the span below row r that took most time itself, and whether it took more
// than r did itself.
func SlowestPart(v *view.View, r view.Row) (part view.Row, ok bool) {
	most, _ := v.SelfTime(r)
	t := v.Tree()
	for rank, end := t.Rank(r)+1, t.End(r); rank < end; rank++ {
		if self, ended := v.SelfTime(t.Row(rank)); ended && self > most {
			part, most, ok = t.Row(rank), self, true
		}
	}
	return part, ok
}

// endOf returns the time at which row i of a block was over, which must have a time.
func endOf(b *columns.Block, i int) int64 {
	start := b.Start[i]
	if d := b.Duration[i]; d != columns.NoDuration && start+d > start {
		return start + d
	}
	return start
}

// best keeps the rows with the largest numbers.
type best struct {
	limit int
	list  []ranked // ascending
}

type ranked struct {
	n int64
	r view.Row
}

// takes reports whether a number is among the largest.
func (b *best) takes(n int64) bool {
	return b.limit > 0 && (len(b.list) < b.limit || n > b.list[0].n)
}

func (b *best) add(n int64, r view.Row) {
	if !b.takes(n) {
		return
	}
	full := len(b.list) >= b.limit
	// The first of equal ones stays the better one.
	at, _ := slices.BinarySearchFunc(b.list, n, func(x ranked, n int64) int { return cmp.Compare(x.n, n) })
	if b.list = slices.Insert(b.list, at, ranked{n, r}); full {
		b.list = slices.Delete(b.list, 0, 1)
	}
}

func (b *best) rows() []view.Row {
	rows := make([]view.Row, 0, len(b.list))
	for _, x := range slices.Backward(b.list) {
		rows = append(rows, x.r)
	}
	return rows
}

// patterns finds the patterns of errors.
func (o *Overview) patterns(ctx context.Context, v *view.View, rows view.Set[view.Row], errs []view.Row, limit int) error {
	type key struct {
		role    view.Role
		pattern string
	}
	found := make(map[key]int)
	var list []ErrorPattern
	known := make(map[string]string) // the patterns of texts
	text := errorTexts{v: v, ctx: ctx}
	for i, r := range errs {
		if i%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if passed, err := text.passed(r, rows); err != nil {
			return err
		} else if passed {
			continue
		}
		s, err := text.of(r)
		if err != nil {
			return err
		}
		p, ok := known[s]
		if !ok {
			if p = patternOf(s); len(known) < maxPatterns {
				known[s] = p
			}
		}
		k := key{v.Role(r), p}
		n, ok := found[k]
		switch {
		case ok:
			list[n].Count++
		case len(list) < maxPatterns:
			found[k] = len(list)
			list = append(list, ErrorPattern{Pattern: p, Role: k.role, Count: 1, First: r})
		default:
			o.OtherErrors++
		}
	}
	slices.SortStableFunc(list, func(a, b ErrorPattern) int { return cmp.Compare(b.Count, a.Count) })
	for _, p := range list[min(limit, len(list)):] {
		o.OtherErrors += p.Count
	}
	o.Patterns = list[:min(limit, len(list))]
	return nil
}

// errorTexts has what errors say: the message of a log record, or the name of a span and the
// description of its status, else the message of its first exception.
type errorTexts struct {
	v                      *view.View
	ctx                    context.Context //nolint:containedctx // of the one call that it lives for
	description, exception *columns.Column
}

func (t *errorTexts) of(r view.Row) (s string, err error) {
	if t.v.Role(r) == view.RoleSpan {
		if s, err = t.attribute(&t.description, mapping.AttrStatusDescription, r); s == "" && err == nil {
			s, err = t.exceptionOf(r)
		}
	} else if s, ok := t.v.Message(r); ok {
		return s, nil
	}
	if s == "" {
		return t.v.Name(r), err
	}
	return t.v.Name(r) + ": " + s, err
}

// exceptionOf returns the message of the first exception of the span at row r, "" if it has none.
func (t *errorTexts) exceptionOf(r view.Row) (string, error) {
	for _, kid := range t.v.Children(r) {
		if t.v.Role(kid) == view.RoleEvent && t.v.Name(kid) == mapping.NameException {
			return t.attribute(&t.exception, "exception.message", kid)
		}
	}
	return "", nil
}

// passed reports whether all that row r says of its failure is an exception that one of the rows
// right below it has as well, as after a panic that passed through both.
func (t *errorTexts) passed(r view.Row, rows view.Set[view.Row]) (bool, error) {
	if t.v.Role(r) != view.RoleSpan {
		return false, nil
	}
	if s, err := t.attribute(&t.description, mapping.AttrStatusDescription, r); s != "" || err != nil {
		return false, err
	}
	own, err := t.exceptionOf(r)
	if own == "" || err != nil {
		return false, err
	}
	for _, kid := range t.v.Children(r) {
		if t.v.Flags(kid).Failed() && rows.Has(kid) {
			if s, err := t.exceptionOf(kid); s == own || err != nil {
				return err == nil, err
			}
		}
	}
	return false, nil
}

// attribute returns an attribute of row r, of a column that is made when it is first needed.
func (t *errorTexts) attribute(c **columns.Column, name string, r view.Row) (s string, err error) {
	if *c == nil {
		if *c, err = t.v.Columns().Column(t.ctx, name); err != nil {
			return "", err
		}
	}
	switch code := (*c).Codes[r]; code {
	case 0:
		return "", nil
	case columns.UnknownText:
		value, _ := (*c).Value(uint32(r))
		return value.Text(), nil
	default:
		return (*c).Values[code-1].Text(), nil
	}
}

// gapBuckets is how many parts the time is cut into to find gaps. One that is longer than a part
// is found.
const gapBuckets = 1 << 16

// gaps finds the longest gaps.
func (o *Overview) gaps(v *view.View, rows view.Set[view.Row], limit int) {
	type bucket struct {
		first, last       int64
		firstRow, lastRow view.Row
		any               bool
	}
	width := uint64(o.Last-o.First)/gapBuckets + 1
	buckets := make([]bucket, gapBuckets)
	add := func(at int64, r view.Row) {
		b := &buckets[uint64(at-o.First)/width]
		if !b.any || at < b.first {
			b.first, b.firstRow = at, r
		}
		if !b.any || at >= b.last {
			b.last, b.lastRow = at, r
		}
		b.any = true
	}
	for k := range v.Columns().Blocks() {
		b := v.Columns().Block(k)
		for w, word := range rows[k*words64 : (k+1)*words64] {
			for ; word != 0; word &= word - 1 {
				i := w*64 + bits.TrailingZeros64(word)
				switch view.Flags(b.Flags[i]).Role() {
				case view.RoleSpan, view.RoleLog, view.RoleEvent:
				default:
					continue
				}
				if start := b.Start[i]; start != columns.NoTime {
					add(start, view.Row(b.First)+view.Row(i))
					if end := endOf(&b, i); end > start {
						add(end, view.Row(b.First)+view.Row(i))
					}
				}
			}
		}
	}
	longest := best{limit: limit}
	var found []Gap
	var last *bucket
	for i := range buckets {
		b := &buckets[i]
		if !b.any {
			continue
		}
		if last != nil && uint64(b.first-last.last) > width {
			longest.add(b.first-last.last, view.Row(len(found)))
			found = append(found, Gap{From: last.last, To: b.first, Before: last.lastRow, After: b.firstRow})
		}
		last = b
	}
	for _, n := range longest.rows() {
		o.Gaps = append(o.Gaps, found[n])
	}
}
