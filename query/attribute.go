package query

import (
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/view"
)

// An attribute reads the values of an attribute from rows and from their resources.
type attribute struct {
	parts     []part  // one for each name under which the attribute can be stored; the first part with a value counts
	resources []Value // by the number of the resource in columns.Block.Resource
	v         *view.View
	columns   columns.Columns // of v
}

// A part holds the values that are stored under one name, for all rows.
type part struct {
	column *columns.Column                       // nil if no column was made
	values []Value                               // the values of the column, by code
	read   func(row uint32) (format.Value, bool) // reads values that are not in the column
}

// attribute returns the attribute with the given name, which is the name that the application used.
func (m *machine) attribute(name string) (*attribute, error) {
	if a, ok := m.attrs[name]; ok {
		return a, nil
	}
	a := &attribute{v: m.v, columns: m.columns}
	stored := []string{name}
	if _, own := mapping.UserName(name); !own {
		stored = []string{"otel.attr." + name, name}
	}
	for _, s := range stored {
		if m.few {
			if _, kept := m.columns.Kept(s); !kept {
				a.parts = append(a.parts, part{read: m.columns.Attribute(s)})
				continue
			}
		}
		c, err := m.columns.Column(m.ctx, s)
		if err != nil {
			return nil, err
		}
		values := make([]Value, len(c.Values)+1)
		for i, x := range c.Values {
			values[i+1] = ValueOf(x)
		}
		a.parts = append(a.parts, part{c, values, c.Value})
	}
	for _, r := range m.columns.Resources() {
		v := Value{}
		if r != 0 {
			v = a.own(view.Row(r))
		}
		a.resources = append(a.resources, v)
	}
	m.attrs[name] = a
	return a, nil
}

// own returns the value of row r itself, without its resource.
func (a *attribute) own(r view.Row) Value {
	for i := range a.parts {
		p := &a.parts[i]
		if p.column != nil {
			code := p.column.Codes[r]
			if code == 0 {
				continue
			}
			if code != columns.UnknownText {
				return p.values[code]
			}
		}
		if v, ok := p.read(uint32(r)); ok {
			return ValueOf(v)
		}
	}
	return Value{}
}

// ofBound returns the value of the event or link at row r, or nil if r is 0.
func (a *attribute) ofBound(r view.Row) Value {
	if r == 0 {
		return Value{}
	}
	return a.own(r)
}

// resource returns the value of the attribute in the resource of row r.
func (a *attribute) resource(r view.Row) Value {
	k := a.columns.Block(int(r) / columns.BlockRows)
	if n := k.Resource[r%columns.BlockRows]; n != columns.Unknown {
		return a.resources[n]
	}
	return a.own(a.v.Resource(r))
}
