package view

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/read/columns"
)

// execTraceName is the name of the entries with execution traces that package control/provider writes.
const execTraceName = "exec.trace"

const maxExecTraces = 1 << 10

// An ExecTraceData is the encoded data of an execution trace.
type ExecTraceData struct {
	File int // the number of the file in the view
	Row  Row // the row of the entry with the execution trace; 0 if the file itself was made from the execution trace
	Data io.ReaderAt
	Size int64
}

// ExecTraces returns the execution traces in the files of the view. Their data can be read until the files are
// closed.
func (v *View) ExecTraces(ctx context.Context) (all []ExecTraceData, err error) {
	for i := range v.builder.files {
		if data, size := v.madeFrom(i); data != nil {
			all = append(all, ExecTraceData{i, 0, data, size})
		}
	}
	rows, err := v.execTraces(ctx)
	for _, r := range rows {
		src := &attributeSource{a: v.attribute("data"), r: r}
		src.a.raw(r, func(b []byte) {
			if len(b) > 2 && b[0] == wire.KindBytes {
				n, at := wire.Uint32(b, 1)
				src.skip, src.size = at, int64(n)
			}
		})
		if src.size > 0 { // otherwise the recorder left the data out, because it was too large
			all = append(all, ExecTraceData{v.fileNumber(r), r, src, src.size})
		}
	}
	return all, err
}

// madeFrom returns the execution trace from which a file was made. It returns nil if the file is an ordinary
// trace.
func (v *View) madeFrom(file int) (data io.ReaderAt, size int64) {
	if v.builder.options.ExecTrace == nil {
		return nil, 0
	}
	return v.builder.options.ExecTrace(v.builder.files[file].file)
}

// HasStates reports whether the view may have execution traces, without searching all rows.
func (v *View) HasStates() bool {
	for i := range v.builder.files {
		if data, _ := v.madeFrom(i); data != nil {
			return true
		}
	}
	return v.mayHaveExecTraces()
}

func (v *View) mayHaveExecTraces() bool {
	return len(v.metas) >= unknown || slices.ContainsFunc(v.metas, func(m format.Metadata) bool { return m.Name == execTraceName })
}

// execTraces returns the rows whose entries contain execution traces.
func (v *View) execTraces(ctx context.Context) ([]Row, error) {
	if !v.mayHaveExecTraces() {
		return nil, nil
	}
	named := make([]bool, len(v.metas))
	for i := range v.metas {
		named[i] = v.metas[i].Name == execTraceName
	}
	var mu sync.Mutex
	var rows []Row
	c := columnsOf{v}
	err := c.Each(ctx, func() func(k int) {
		return func(k int) {
			b := c.Block(k)
			for i, m := range b.Meta {
				r := Row(b.First) + Row(i)
				if m != columns.Unknown && named[m] || m == columns.Unknown && v.Name(r) == execTraceName {
					mu.Lock()
					rows = append(rows, r)
					mu.Unlock()
				}
			}
		}
	})
	slices.Sort(rows)
	return rows[:min(len(rows), maxExecTraces)], err
}

// An attributeSource reads an attribute of kind Bytes in pieces, so that the value need not be in memory as a
// whole.
type attributeSource struct {
	a    *attributeReader
	r    Row
	skip int // the offset of the bytes in the value
	size int64
}

func (s *attributeSource) ReadAt(p []byte, off int64) (n int, err error) {
	if off >= s.size {
		return 0, io.EOF
	}
	found := false
	s.a.raw(s.r, func(b []byte) {
		if int64(len(b)-s.skip) == s.size {
			n, found = copy(p, b[int64(s.skip)+off:]), true
		}
	})
	switch {
	case !found:
		return 0, errors.New("the entry cannot be read any more")
	case n < len(p):
		return n, io.EOF
	}
	return n, nil
}
