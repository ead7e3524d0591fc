package view

import (
	"context"
	"errors"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/columns"
)

// Stored gives access to the entries of the files from which the rows were made. It is meant for packages of this
// module.
func (v *View) Stored() columns.Stored[Row] { return storedRows{v} }

// storedRows implements columns.Stored.
type storedRows struct{ v *View }

func (s storedRows) IsCorrected() bool { return s.v.builder.options.Clock != nil }

func (s storedRows) First(r Row) (Row, bool) {
	first := r
	for s.v.flags(first).Role() == RoleFolded {
		first = s.v.parent(first)
	}
	return first, first != r
}

func (s storedRows) IsCopy(r Row) bool {
	first, _ := s.First(r)
	return s.v.copied.has(r) && s.v.last[first] != r
}

func (s storedRows) HasEnd(r Row) bool {
	_, joined := s.v.last[r]
	return s.v.end(r) != 0 || joined
}

func (s storedRows) Below(r Row, e *format.TraceEntry) Row {
	v := s.v
	parent := v.parent(r)
	if file := v.fileNumber(r); v.fileNumber(parent) != file || v.id(parent) != e.Parent {
		parent, _ = v.Row(file, e.Parent)
	}
	return parent
}

func (s storedRows) Each(ctx context.Context, fn func(r Row, e *format.TraceEntry) error) error {
	v := s.v
	for file, run := range v.runsSince(0) {
		r := run.row
		err := v.files[file].file.Walk(v.id(r), func(id uint32, e *format.TraceEntry) error {
			if id%4096 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			if id != v.id(r) {
				return nil // the entry is the end of a span, and folded into its row
			}
			r++
			if v.Role(r-1) != RoleFolded {
				if err := fn(r-1, e); err != nil {
					return err
				}
			}
			if r == run.end {
				return errStop
			}
			return nil
		})
		if err != nil && !errors.Is(err, errStop) {
			return err
		}
	}
	return nil
}

var errStop = errors.New("that is all")
