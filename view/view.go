package view

import (
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

// A resource holds the row of a resource and the service that it names.
type resource struct {
	row     Row
	service string
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
