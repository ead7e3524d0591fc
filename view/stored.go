package view

import "github.com/entrace-go/entrace/internal/read/columns"

// Stored says how the rows were made from the entries of the files. It is meant for packages of this module.
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

func (s storedRows) SameResource(a, b Row) bool {
	if s.v.Resource(a) == s.v.Resource(b) {
		return true
	}
	x, y, alike := int(s.v.resource(a)), int(s.v.resource(b)), s.v.alike
	return max(x, y) < len(alike) && alike[x] == alike[y] && alike[x] != 0
}

func (s storedRows) IsCopy(r Row) bool {
	first, _ := s.First(r)
	return s.v.copied.has(r) && s.v.last[first] != r
}
