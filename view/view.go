package view

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/entrace-go/entrace/format"
)

// Options change how [New] works.
type Options struct {
	// Workers is the number of goroutines that build the view. The default is runtime.GOMAXPROCS.
	Workers int
	// Clock, if set, returns a correction that is added to the times of all records of a service in a file. The
	// service is "" if it is not known. Clock must always return the same result for the same arguments.
	Clock func(f *format.File, service string) time.Duration
	// ExecTrace, if set, returns the Go execution trace from which a file was made, and its size. It returns nil for
	// other files. The data must be readable as long as the view is used.
	ExecTrace func(f *format.File) (data io.ReaderAt, size int64)
}

// A Row is the number of a row of a view, from 0 on.
type Row uint32

// A View holds the rows of one or several files, as they were when the view was made. It is safe for concurrent use.
// Do not use a View after one of its files is closed: reading an entry then fails with [format.ErrClosed].
type View struct {
	storedColumns

	builder   *builder
	files     []fileView
	metas     []format.Metadata // without levels
	messages  []string
	shapes    [][]string
	traces    traces
	resources []resource
	last      map[Row]Row // by first half of a span: its last half
	late      bool
	copies    int      // the number of folded rows that are copies
	alike     []uint32 // by resource; equal resources have the same number; empty for a single file
	copied    rowBits

	treeOnce    sync.Once
	tree        *Tree
	columnsKept columnsKept
	kept        sync.Map // see columns.Columns.OfView
	ownersOnce  sync.Once
	owners      []Row
	depthsOnce  sync.Once
	depths      []uint32
	periodOnce  sync.Once
	period      [2]int64 // see Period; empty if the first is greater

	fileEndsOnce sync.Once
	fileEnds     []fileEnd       // by file
	endsOfOpen   map[Row]fileEnd // by open span in several files: how its other files end
}

// A fileView is the part of a view that comes from one file.
type fileView struct {
	*source

	n      uint32
	shapes []uint16
	damage error
	runs   []rowRun
}

// New makes a view of at least one file. If a recorder wrote several of the files one after the other, the earlier
// files must precede the later files. A nil o means defaults.
//
// Damaged entries, and all entries after them in their file, are not part of the view: see
// [View.Damage]. The error is the error of ctx, or of reading a file.
func New(ctx context.Context, files []*format.File, o *Options) (*View, error) {
	if o == nil {
		o = &Options{}
	}
	return newBuilder(files, o).extend(ctx)
}

// Extend returns a view of the current contents of the files, including entries that were added. It returns v if
// no entries were added. v itself does not change. Rows keep their numbers.
func (v *View) Extend(ctx context.Context) (*View, error) {
	for _, f := range v.builder.files {
		if err := f.entries.Grow(ctx); err != nil {
			return nil, err
		}
	}
	return v.builder.extend(ctx)
}

// extend reads the new entries of the files, and returns a view with them.
func (b *builder) extend(ctx context.Context) (*View, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	limits := make([]uint32, len(b.files))
	more := 0
	for i, f := range b.files {
		limits[i] = max(f.n, uint32(f.file.Len()))
		if f.damage != nil {
			limits[i] = f.n
		}
		more += int(limits[i] - f.n)
	}
	if more == 0 && b.latest != nil {
		return b.latest, nil
	}
	if b.n == 0 {
		b.reserve(more / 2)
	}
	if err := b.run(ctx, limits); err != nil {
		return nil, err
	}
	if err := b.moveToParents(b.joined); err != nil {
		return nil, err
	}
	b.joined = b.n
	v := b.view()
	if !slices.ContainsFunc(b.files, (*growingFile).canGrow) {
		b.forget()
	}
	return v, nil
}

// Len returns the number of rows.
func (v *View) Len() int { return int(v.n) }

// Rows returns all rows in the order of their numbers, including folded rows.
func (v *View) Rows() iter.Seq[Row] {
	return func(yield func(Row) bool) {
		for r := range v.n {
			if !yield(Row(r)) {
				return
			}
		}
	}
}

// Files returns the files of the view, in the order of the argument of New.
func (v *View) Files() []*format.File {
	files := make([]*format.File, len(v.files))
	for i := range v.files {
		files[i] = v.files[i].file
	}
	return files
}

// Entries returns the number of entries of a file that are in the view.
func (v *View) Entries(file int) int { return int(v.files[file].n) }

// WholeSize returns the size in bytes of the undamaged beginning of a file: the header, and the entries that are
// in the view.
func (v *View) WholeSize(file int) int64 {
	f := &v.files[file]
	return f.entries.Offset(f.n)
}

// Damage returns nil if the view has all entries of a file. Otherwise it says why entries are missing. See
// [format.File.Damage].
func (v *View) Damage(file int) error {
	if err := v.files[file].damage; err != nil {
		return err
	}
	return v.files[file].file.Damage()
}

// fileOf returns the file to which row r belongs.
func (v *View) fileOf(r Row) *fileView { return &v.files[v.fileNumber(r)] }

// endOf returns the id of the entry that ends the span at row r, or 0 if there is none. It also returns the row of
// the entry: r, or the row of a later half of the span if that half has the end.
func (v *View) endOf(r Row) (of Row, id uint32) {
	if last, ok := v.last[r]; ok && v.end(last) != 0 {
		r = last
	}
	return r, v.end(r)
}

// ID returns the index of the file to which row r belongs, and the id of the row's entry in this file.
func (v *View) ID(r Row) (file int, id uint32) { return v.fileNumber(r), v.id(r) }

// Row returns the row of an entry of a file. For the end of a span, it returns the row of the span. It returns
// false if the view does not have the entry.
func (v *View) Row(file int, id uint32) (Row, bool) {
	if file < 0 || file >= len(v.files) || id >= v.files[file].n {
		return 0, false
	}
	if id == 0 {
		return 0, true
	}
	runs := v.files[file].runs
	k := sort.Search(len(runs), func(i int) bool { return v.id(runs[i].end-1) >= id })
	if k < len(runs) {
		from, n := runs[k].row, int(runs[k].end-runs[k].row)
		r := from + Row(sort.Search(n, func(i int) bool { return v.id(from+Row(i)) >= id }))
		if v.id(r) == id {
			return r, true
		}
	}
	// The entry is folded into its parent.
	return v.Row(file, v.files[file].file.Parent(id))
}

// Flags returns the flags of row r.
func (v *View) Flags(r Row) Flags { return v.flags(r) }

// Role returns the role of row r.
func (v *View) Role(r Row) Role { return v.flags(r).Role() }

// Parent returns the parent of row r. If r is folded into another row, it returns that row. The parent may have a
// larger number than r. The parent of the root is the root.
func (v *View) Parent(r Row) Row { return v.parent(r) }

// Outermost returns the outermost span above the span at row r, or r itself if no span is above it. Only spans
// that are directly below each other count.
func (v *View) Outermost(r Row) Row {
	for up := v.Parent(r); v.Role(up) == RoleSpan; up = v.Parent(up) {
		r = up
	}
	return r
}

// NewSet returns an empty set of rows of v.
func (v *View) NewSet() Set[Row] { return make(Set[Row], len(v.blocks)*blockRows/64) }

// Start returns the time of row r in nanoseconds since 1970. It returns false if r has no time. The time of a span
// is its start.
func (v *View) Start(r Row) (int64, bool) {
	t := v.start(r)
	return t, t != noTime
}

// Time returns the result of [View.Start] as a UTC time.
func (v *View) Time(r Row) (time.Time, bool) {
	t := v.start(r)
	if t == noTime {
		return time.Time{}, false
	}
	return time.Unix(0, t).UTC(), true
}

// Duration returns the duration of the span at row r. It returns false if r is not a span or has no duration, for
// example because the span has not ended.
func (v *View) Duration(r Row) (time.Duration, bool) {
	d := v.duration(r)
	if d == noTook || v.flags(r).Role() != RoleSpan {
		return 0, false
	}
	return time.Duration(d), true
}

// Metadata returns the metadata that [View.Entry] returns for row r, usually without reading the entry.
func (v *View) Metadata(r Row) format.Metadata {
	if n := v.meta(r); n != unknown {
		m := v.metas[n]
		m.Level = v.flags(r).Level()
		return m
	}
	e, err := v.Entry(r)
	if err != nil {
		return format.Metadata{}
	}
	return e.Metadata
}

// Name returns the name of row r: the name of the span or event, or for another row the name of its entry.
func (v *View) Name(r Row) string {
	if n := v.meta(r); n != unknown {
		return v.metas[n].Name
	}
	return v.NewReader().Name(r)
}

// Message returns the message of row r. It returns false if the row has no message.
func (v *View) Message(r Row) (string, bool) {
	if !v.flags(r).HasMessage() {
		return "", false
	}
	if n := v.text(r); n != unknownText {
		return v.messages[n], true
	}
	e, err := v.fileOf(r).file.Entry(v.id(r))
	if err != nil {
		return "", false
	}
	return e.Message.Value, e.Message.Valid
}

// Resource returns the row of the resource to which row r belongs, or 0 if r belongs to no resource.
func (v *View) Resource(r Row) Row {
	if n := v.resource(r); n != unknown {
		return v.resources[n].row
	}
	for r != 0 && v.Role(r) != RoleResource { // the table of resources is full
		r = v.Parent(r)
	}
	return r
}

// Service returns the service to which row r belongs, or "" if the resource of r does not name a service.
func (v *View) Service(r Row) string {
	if n := v.resource(r); n != unknown {
		return v.resources[n].service
	}
	e, err := v.Entry(v.Resource(r))
	if err != nil {
		return ""
	}
	return serviceIn(e)
}

// serviceIn returns the service that the entry of a resource names.
func serviceIn(e *format.TraceEntry) string {
	if s, ok := e.Attribute("service.name"); ok {
		return s.String()
	}
	return e.Message.Value
}

// Services returns the names of the services in all resources, sorted.
func (v *View) Services() []string {
	var all []string
	for _, r := range v.resources[1:] {
		if r.service != "" {
			all = append(all, r.service)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// TraceID returns the id of the trace to which row r belongs, or zero if the id is not known.
func (v *View) TraceID(r Row) [16]byte { return v.traces.at(v.trace(r)) }

// Owner returns r if row r is a span. Otherwise it returns the nearest span above r, or 0 if there
// is none.
func (v *View) Owner(r Row) Row {
	for range usualDepth {
		if r == 0 || v.Role(r) == RoleSpan {
			return r
		}
		r = v.parent(r)
	}
	v.ownersOnce.Do(v.findOwners)
	return v.owners[r]
}

// usualDepth is the number of levels that Owner climbs. After that, it computes the owners of all rows. Log
// records and events are rarely deeper below their span.
const usualDepth = 64

// findOwners computes the owners of all rows.
func (v *View) findOwners() {
	v.owners = make([]Row, v.n)
	_ = v.Walk(0, func(r Row, _ int, _ bool) error {
		v.owners[r] = v.owners[v.parent(r)]
		if v.Role(r) == RoleSpan {
			v.owners[r] = r
		}
		return nil
	})
}

// Ref returns the trace id of row r and the span id of its [View.Owner].
func (v *View) Ref(r Row) format.SpanRef {
	ref := format.SpanRef{TraceID: v.TraceID(r)}
	if owner := v.Owner(r); owner != 0 {
		ref.SpanID, _ = v.attributeID(owner, format.AttrSpanID)
	}
	return ref
}

// attributeID parses an attribute of row r as a span id.
func (v *View) attributeID(r Row, name string) (id [8]byte, err error) {
	n, err := v.fileOf(r).attributeID(v.id(r), name)
	binary.BigEndian.PutUint64(id[:], n)
	return id, err
}

// Span returns the row of the span with the given ids, and whether the view has it. If several spans have these
// ids, it returns the first one.
func (v *View) Span(ref format.SpanRef) (Row, bool) {
	low := binary.BigEndian.Uint32(ref.SpanID[4:])
	for k, b := range v.blocks {
		n := min(v.n-uint32(k)*blockRows, blockRows)
		for i, text := range b.text[:n] {
			r := Row(k*blockRows + i)
			if text != low || v.flags(r).Role() != RoleSpan || v.traces.at(b.trace[i]) != ref.TraceID {
				continue
			}
			if id, err := v.attributeID(r, format.AttrSpanID); err == nil && id == ref.SpanID {
				return r, true
			}
		}
	}
	return 0, false
}

// Missing returns the ids of the span that row r names as its parent, if the view does not have this span. A log record
// names the span in which it was logged. The result missing is false if row r names no span, or the view has the span.
func (v *View) Missing(r Row) (ref format.SpanRef, missing bool, err error) {
	if !v.flags(r).Missing() {
		return ref, false, nil
	}
	name := format.AttrParentSpanID
	if v.Role(r) == RoleLog {
		name = format.AttrSpanID
	}
	ref.TraceID = v.TraceID(r)
	ref.SpanID, err = v.attributeID(r, name)
	return ref, ref.IsValid(), err
}

// Children returns the children of row r, in order. The caller owns the slice.
func (v *View) Children(r Row) []Row { return slices.Collect(v.Tree().Children(r)) }

// SkipChildren is an error that the function passed to [View.Walk] can return. Walk then skips all rows below the
// current row.
var SkipChildren = errors.New("skip the children") //nolint:revive,staticcheck // named like fs.SkipDir, because it is not an error

// Walk calls fn for row r and all rows below it, until fn returns an error. It visits parents before their children,
// and children in order. The argument depth is the depth below row r. The argument last is true for the last child of
// its parent.
func (v *View) Walk(r Row, fn func(r Row, depth int, last bool) error) error {
	t := v.Tree()
	rank, end := t.Rank(r), t.End(r)
	var ends []int // the ends of the subtrees that contain the row
	for rank < end {
		for len(ends) > 0 && ends[len(ends)-1] <= rank {
			ends = ends[:len(ends)-1]
		}
		r := Row(t.rows[rank])
		behind := t.End(r)
		last := len(ends) == 0 || behind == ends[len(ends)-1]
		switch err := fn(r, len(ends), last); {
		case errors.Is(err, SkipChildren):
			rank = behind
		case err != nil:
			return err
		default:
			ends = append(ends, behind)
			rank++
		}
	}
	return nil
}
