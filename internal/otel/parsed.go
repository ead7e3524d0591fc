package otel

import (
	"math"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
)

// A Reader reads spans, links, events and log records from entries. It reuses its memory, so a result is only valid
// until the next call. The results of functions such as ReadSpan do not have this restriction.
type Reader struct {
	parsed parsed
	span   Span
	log    Log
}

// A parsed holds the attributes of an entry in three lists: this module's own attributes, the application's
// attributes, and the attributes of the scope. The attributes of the last two lists have their original names.
type parsed struct {
	own   []format.Attribute
	users []Attribute
	scope []Attribute
}

// parse separates the attributes of e. It reuses the memory of p.
func (p *parsed) parse(e *format.TraceEntry) {
	var jsons, anys, durs map[string]bool
	users := 0
	for i := range e.Attributes {
		switch name := e.Attributes[i].Name; {
		case name == mapping.AttrJSON:
			jsons = Names(e.Attributes[i].Value)
		case name == mapping.AttrAnyValue:
			anys = Names(e.Attributes[i].Value)
		case name == mapping.AttrDurations:
			durs = Names(e.Attributes[i].Value)
		case !mapping.Reserved(name):
			users++
		}
	}
	p.own = slices.Grow(p.own[:0], len(e.Attributes)-users)
	p.users = slices.Grow(p.users[:0], users)
	p.scope = p.scope[:0]
	for i := range e.Attributes {
		a := &e.Attributes[i]
		stored := a.Name
		encoding := Native
		switch {
		case jsons[stored]:
			encoding = JSON
		case anys[stored]:
			encoding = AnyValue
		case durs[stored]:
			if _, ok := a.Value.I64(); ok {
				encoding = Duration
			}
		}
		if name, ok := mapping.UserName(stored); ok {
			p.users = append(p.users, Attribute{name, a.Value, encoding})
		} else if name, ok := strings.CutPrefix(stored, mapping.AttrScopePrefix); ok {
			p.scope = append(p.scope, Attribute{name, a.Value, encoding})
		} else {
			p.own = append(p.own, *a)
		}
	}
}

// get returns the value of the first of our own attributes with this name.
func (p *parsed) get(name string) (v format.Value, ok bool) {
	for i := range p.own {
		if p.own[i].Name == name {
			return p.own[i].Value, true
		}
	}
	return v, false
}

// Names returns the names in v, the value of otel.json, otel.anyvalue or entrace.duration.
func Names(v format.Value) map[string]bool {
	if v.Text() == "" {
		return nil
	}
	list, err := ParseJSON(v.Text())
	if err != nil || list.Kind != List {
		return nil
	}
	m := make(map[string]bool, len(list.List))
	for i := range list.List {
		m[list.List[i].Text] = true
	}
	return m
}

func (p *parsed) text(name string) string { v, _ := p.get(name); return v.Text() }

func (p *parsed) number(name string, absent uint32) uint32 {
	if v, ok := p.get(name); ok {
		return numberOr(v, absent)
	}
	return absent
}

// numberOr returns v as a uint32, limited to its range, or absent if v is not a number.
func numberOr(v format.Value, absent uint32) uint32 {
	if n, ok := v.U64(); ok {
		return uint32(min(n, math.MaxUint32))
	}
	return absent
}

func (p *parsed) time(name string) (int64, bool) {
	v, ok := p.get(name)
	if !ok {
		return 0, false
	}
	return timeOf(v)
}

// timeOf returns v as nanoseconds. A value above the largest int64 becomes the largest int64.
func timeOf(v format.Value) (int64, bool) {
	if n, ok := v.I64(); ok {
		return n, true
	}
	_, ok := v.U64()
	return math.MaxInt64, ok
}
