package view

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/spanmap"
	"github.com/entrace-go/entrace/internal/otel"
)

// copies finds rows that occur in several files of one process, such as snapshots of a flight recorder.
//
// Spans in different files are copies if their trace id, span id, start and resource are equal. Two files belong to
// one process if they have a common span, or if flight recorders of one process wrote them. Other rows of files of
// one process are copies if they have the same parent and the same content.
type copies struct {
	rows      rowBits // rows that are copies of other rows
	n         int
	resources otel.Resources
	known     map[string]uint32
	numbers   []uint32             // by resource; equal resources have the same number
	times     map[holding]interval // from the first to the last time of the rows
	process   forest[int]          // the files of a process are a tree, whose root is the first file
	names     []string             // by file: the name of its process, or "" if the file does not contain the name
}

// A holding identifies the rows in one file that belong to one resource.
type holding struct {
	file     int
	resource uint32
}

// An interval is a range of times that includes both ends.
type interval struct{ from, to int64 }

func (i interval) with(j interval) interval { return interval{min(i.from, j.from), max(i.to, j.to)} }

func (i interval) has(t int64) bool { return i.from <= t && t <= i.to }

// none is the empty interval.
var none = interval{math.MaxInt64, math.MinInt64}

// joinSpanCopies makes one row of all copies of a span. The rows before was are already joined with each other.
// The first result reports whether any spans were joined.
func (b *builder) joinSpanCopies(was uint32) (joined bool, err error) {
	if len(b.files) < 2 {
		return false, nil
	}
	if err := b.numberResources(); err != nil {
		return false, err
	}
	b.noteTimes(was)
	if err := b.joinProcesses(); err != nil {
		return false, err
	}
	groups, err := b.shared(b.timesSince(was), func(_ int, role Role) bool { return role == RoleSpan }, b.spanKey)
	for _, group := range groups {
		kept := group[0]
		if i := slices.IndexFunc(group, func(r Row) bool { return !b.flags(r).Open() }); i >= 0 {
			kept = group[i]
		}
		b.joinCopies(group, kept)
	}
	if len(groups) > 0 {
		b.moveLast()
	}
	return len(groups) > 0, err
}

// joinOtherCopies does the same as joinSpanCopies for all rows that are not spans, including resources. The
// parents of all rows must be final before the call. It returns moves for the rows below copies.
func (b *builder) joinOtherCopies(was uint32) (below []move, err error) {
	sharing := b.copies.sharing()
	if !slices.Contains(sharing, true) {
		return nil, nil
	}
	joined := b.joinResources(sharing)
	groups, err := b.shared(b.timesSince(was), func(file int, role Role) bool {
		switch role {
		case RoleLog, RoleEvent, RoleLink, RoleOther:
			return sharing[file]
		}
		return false
	}, b.contentKey)
	if err != nil || len(groups) == 0 && !joined {
		return nil, err
	}
	for _, group := range groups {
		b.joinCopies(group, group[0])
	}
	return b.belowHalves(), nil
}

// joinResources makes one row of equal resources of one process. It reports whether any resources were joined.
func (b *builder) joinResources(sharing []bool) (joined bool) {
	kept := make(map[holding]int)
	for n := 1; n < len(b.resources); n++ {
		r := b.resources[n].row
		if file := b.fileNumber(r); sharing[file] {
			of := holding{b.copies.process.root(file), b.copies.numbers[n]}
			first, ok := kept[of]
			if !ok {
				kept[of] = n
			} else if to := b.resources[first].row; to != r {
				b.joinCopies([]Row{r}, to)
				b.resources[n].row, joined = to, true
			}
		}
	}
	return joined
}

// joinCopies folds the rows of a group into the row kept, which is one of them.
func (b *builder) joinCopies(group []Row, kept Row) {
	for _, r := range group {
		if r == kept {
			continue
		}
		b.foldInto(r, kept)
		b.copies.rows.add(r)
		b.copies.n++
		b.copies.join(b.fileNumber(r), b.fileNumber(kept))
	}
}

// numberResources assigns the same number to equal resources.
func (b *builder) numberResources() error {
	c := &b.copies
	if c.known == nil {
		c.known, c.times, c.numbers = make(map[string]uint32), make(map[holding]interval), []uint32{0}
		for i := range b.files {
			c.process = append(c.process, i)
		}
		c.names = make([]string, len(b.files))
	}
	for n := len(c.numbers); n < len(b.resources); n++ {
		r := b.resources[n].row
		e, err := b.entry(r)
		if err != nil {
			return err
		}
		e.Parent = 0
		key := c.resources.Key(e)
		number, ok := c.known[string(key)]
		if !ok {
			number = uint32(len(c.known) + 1)
			c.known[string(key)] = number
		}
		c.numbers = append(c.numbers, number)
	}
	return nil
}

// noteTimes adds the times of row was and of all later rows to copies.times.
func (b *builder) noteTimes(was uint32) {
	for file, run := range b.runsSince(was) {
		at, last := none, holding{file: -1}
		note := func() {
			if at != none {
				if old, ok := b.copies.times[last]; ok {
					at = at.with(old)
				}
				b.copies.times[last] = at
			}
			at = none
		}
		for r := run.row; r < run.end; r++ {
			if n := b.resource(r); n != unknown && b.start(r) != noTime {
				if h := (holding{file, b.copies.numbers[n]}); h != last {
					note()
					last = h
				}
				at = at.with(interval{b.start(r), b.start(r)})
			}
		}
		note()
	}
}

// timesSince returns the interval that contains the times of row was and of all later rows.
func (b *builder) timesSince(was uint32) interval {
	if was == 0 {
		return interval{math.MinInt64, math.MaxInt64}
	}
	all := none
	for r := Row(was); r < Row(b.n); r++ {
		if t := b.start(r); t != noTime {
			all = all.with(interval{t, t})
		}
	}
	return all
}

// windows returns, for each holding, the interval in which other files also have rows of the same resource.
func (c *copies) windows() map[holding]interval {
	byResource := make(map[uint32][]holding)
	for h := range c.times {
		byResource[h.resource] = append(byResource[h.resource], h)
	}
	all := make(map[holding]interval)
	for _, list := range byResource {
		slices.SortFunc(list, func(g, h holding) int { return cmp.Compare(c.times[g].from, c.times[h].from) })
		until := int64(math.MinInt64) // the latest time of all earlier holdings in the list
		for i, h := range list {
			own, window := c.times[h], none
			if i > 0 && own.from <= until {
				window = interval{own.from, min(own.to, until)}
			}
			if i+1 < len(list) && c.times[list[i+1]].from <= own.to {
				window = window.with(interval{c.times[list[i+1]].from, own.to})
			}
			if window != none {
				all[h] = window
			}
			until = max(until, own.to)
		}
	}
	return all
}

// Rows with equal rowKeys are copies of each other.
type rowKey [4]uint64

// shared returns groups of rows that are copies of each other. It considers only rows for which wanted returns true
// and whose time is in the interval in. It omits groups that are already joined. The rows of a group are from
// different files, and sorted.
func (b *builder) shared(in interval, wanted func(file int, role Role) bool, key func(r Row) (rowKey, error)) ([][]Row, error) {
	windows := b.copies.windows()
	if len(windows) == 0 {
		return nil, nil
	}
	each := func(fn func(r Row, hash uint64)) {
		for file, run := range b.runsSince(1) {
			last, window := holding{file: -1}, none
			for r := run.row; r < run.end; r++ {
				role, n := b.flags(r).Role(), b.resource(r)
				if role == RoleFolded && b.copies.rows.has(r) {
					role = b.flags(b.firstOf(r)).Role() // a folded copy counts like an unfolded row
				}
				if n == unknown || !wanted(file, role) {
					continue
				}
				if h := (holding{file, b.copies.numbers[n]}); h != last {
					last, window = h, none
					if w, ok := windows[h]; ok {
						window = w
					}
				}
				t := b.start(r)
				if timed := t != noTime; timed && (!in.has(t) || !window.has(t)) || !timed && window == none {
					continue
				}
				text := uint64(0)
				if role == RoleSpan {
					text = uint64(b.text(r))
				}
				fn(r, spanmap.Hash(uint64(t), uint64(b.copies.numbers[n])<<32^text))
			}
		}
	}
	// Most rows are in a single file, so compare only rows whose hash occurs at least twice.
	size := uint64(64)
	for size < uint64(b.n)*4 {
		size *= 2
	}
	seen, again := make([]uint64, size/64), make([]uint64, size/64)
	each(func(_ Row, hash uint64) {
		at, bit := hash%size/64, uint64(1)<<(hash%64)
		again[at] |= seen[at] & bit
		seen[at] |= bit
	})
	type keyed struct {
		key rowKey
		row Row
	}
	var all []keyed
	var err error
	each(func(r Row, hash uint64) {
		if again[hash%size/64]>>(hash%64)&1 == 0 || err != nil {
			return
		}
		var k rowKey
		k, err = key(r)
		if err == nil {
			all = append(all, keyed{k, r})
		}
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(all, func(x, y keyed) int { return cmp.Or(slices.Compare(x.key[:], y.key[:]), cmp.Compare(x.row, y.row)) })
	var groups [][]Row
	for from := 0; from < len(all); {
		to := from + 1
		for to < len(all) && all[to].key == all[from].key {
			to++
		}
		// A file can have equal records. Match the n-th equal record of a file with the n-th equal record of each
		// other file.
		var equal [][]Row
		times := make(map[int]int)
		for _, x := range all[from:to] {
			file := b.fileNumber(x.row)
			n := times[file]
			times[file]++
			if n == len(equal) {
				equal = append(equal, nil)
			}
			equal[n] = append(equal[n], x.row)
		}
		for _, group := range equal {
			group = slices.DeleteFunc(group, func(r Row) bool { return b.flags(r).Role() == RoleFolded })
			if len(group) > 1 {
				groups = append(groups, b.ofOneProcess(group)...)
			}
		}
		from = to
	}
	return groups, nil
}

// ofOneProcess splits a group so that no part has files of different processes, as far as the processes are known.
func (b *builder) ofOneProcess(group []Row) (groups [][]Row) {
	for _, r := range group {
		i := slices.IndexFunc(groups, func(g []Row) bool { return !b.copies.differ(b.fileNumber(g[0]), b.fileNumber(r)) })
		if i < 0 {
			i, groups = len(groups), append(groups, nil)
		}
		groups[i] = append(groups[i], r)
	}
	return slices.DeleteFunc(groups, func(g []Row) bool { return len(g) < 2 })
}

// spanKey returns the key of a span. Without a trace, no other span has the key, because ids of spans are unique only
// within a trace.
func (b *builder) spanKey(r Row) (k rowKey, err error) {
	id, err := b.spanID(r)
	if b.trace(r) == 0 {
		id = uint64(r)
	}
	return rowKey{uint64(b.start(r)), uint64(b.trace(r)), id, uint64(b.copies.numbers[b.resource(r)])}, err
}

// contentKey returns the key of a row that is not a span. It depends on the row's parent, and on the row's content
// without the ids of the parent.
func (b *builder) contentKey(r Row) (k rowKey, err error) {
	r = b.firstOf(r)
	e, err := b.entry(r)
	if err != nil {
		return k, err
	}
	up := b.firstOf(b.parent(r))
	if role := b.flags(up).Role(); role == RoleResource && b.resource(up) != unknown {
		e.Parent = math.MaxUint32 - b.copies.numbers[b.resource(up)]
	} else {
		e.Parent = uint32(up)
	}
	e.Attributes = slices.DeleteFunc(e.Attributes, func(a format.Attribute) bool {
		return a.Name == format.AttrTraceID || a.Name == format.AttrSpanID
	})
	format.SortAttributes(e.Attributes)
	sum := sha256.Sum256(format.AppendTraceEntry(nil, format.V2, e))
	for i := range k {
		k[i] = binary.LittleEndian.Uint64(sum[8*i:])
	}
	return k, nil
}

// joinProcesses finds files that flight recorders of one process wrote. Two files belong to one process if they name
// the same process, or if they have rows of the same resource and do not name different processes.
func (b *builder) joinProcesses() error {
	c := &b.copies
	flights := make(map[any]int) // the first file of each process or resource
	join := func(key any, file int) {
		if first, ok := flights[key]; !ok {
			flights[key] = file
		} else if !c.differ(first, file) {
			c.join(first, file)
		}
	}
	for i, f := range b.files {
		if f.flight == 0 {
			continue
		}
		if c.names[i] == "" {
			e, err := f.file.Entry(b.id(f.flight))
			if err != nil {
				return err
			}
			if pid, ok := e.Attribute(mapping.AttrProcessID); ok {
				host, _ := e.Attribute(mapping.AttrHostName)
				c.names[i] = pid.String() + "@" + host.Text()
			}
		}
		if c.names[i] != "" {
			join(c.names[i], i)
		}
	}
	for h := range c.times {
		if h.resource != 0 && b.files[h.file].flight != 0 {
			join(h.resource, h.file)
		}
	}
	return nil
}

// differ reports whether two files are known to come from different processes.
func (c *copies) differ(i, j int) bool {
	return c.names[i] != c.names[j] && c.names[i] != "" && c.names[j] != ""
}

// join records that the same process wrote files i and j.
func (c *copies) join(i, j int) {
	i, j = c.process.root(i), c.process.root(j)
	c.process[max(i, j)] = min(i, j)
}

// sharing reports for each file whether the same process wrote another file.
func (c *copies) sharing() []bool {
	count := make([]int, len(c.process))
	for i := range c.process {
		count[c.process.root(i)]++
	}
	all := make([]bool, len(c.process))
	for i := range all {
		all[i] = count[c.process.root(i)] > 1
	}
	return all
}

// Copies returns the number of rows that are copies of other rows. Several files can contain the same records of one
// process, for example snapshots of a flight recorder. All copies of a record are folded into the copy with the most
// information.
func (v *View) Copies() int { return v.copies }
