package otel

import (
	"encoding/hex"

	"github.com/entrace-go/entrace/format"
)

// A Source reads the spans and log records of a trace from its logical view.
//
// A Source is not safe for concurrent use.
type Source struct {
	V *format.View

	resources map[uint32]*Resource
}

// NewSource returns a source of v.
func NewSource(v *format.View) *Source {
	return &Source{V: v, resources: make(map[uint32]*Resource)}
}

// Span reads span id with its links and events, which come in the order in which
// they were written.
func (s *Source) Span(id uint32) (*Span, error) {
	e, err := s.V.Entry(id)
	if err != nil {
		return nil, err
	}
	var up format.SpanRef
	if s.V.Role(e.Parent) == format.RoleSpan {
		up = s.V.Ref(e.Parent)
	}
	span := ReadSpan(e, up)
	span.ID = id
	// Children of the raw tree are in the order in which they were written.
	for _, kid := range s.V.File().Children(id) {
		switch s.V.Role(kid) {
		case format.RoleLink:
			e, err := s.V.Entry(kid)
			if err != nil {
				return nil, err
			}
			span.Links = append(span.Links, ReadLink(e))
		case format.RoleEvent:
			e, err := s.V.Entry(kid)
			if err != nil {
				return nil, err
			}
			ev := ReadEvent(e)
			ev.ID = kid
			span.Events = append(span.Events, ev)
		}
	}
	return span, nil
}

// Log reads the log record id.
func (s *Source) Log(id uint32) (*Log, error) {
	e, err := s.V.Entry(id)
	if err != nil {
		return nil, err
	}
	l := ReadLog(e)
	l.ID = id
	return l, nil
}

// ResourceID returns the entry of the resource that id is below, 0 if there is
// none.
func (s *Source) ResourceID(id uint32) uint32 {
	for id != 0 && s.V.Role(id) != format.RoleResource {
		id = s.V.File().Parent(id)
	}
	return id
}

// Resource reads the resource at entry id; 0 is one that is empty.
func (s *Source) Resource(id uint32) (*Resource, error) {
	if r, ok := s.resources[id]; ok {
		return r, nil
	}
	r := new(Resource)
	if id != 0 {
		e, err := s.V.Entry(id)
		if err != nil {
			return nil, err
		}
		r = ReadResource(e)
	}
	s.resources[id] = r
	return r, nil
}

// ParseID reads an id of 16 or 8 bytes from hex digits.
func ParseID[T [16]byte | [8]byte](s string) (id T, ok bool) {
	var b [16]byte
	if len(s) == 0 || len(s) != 2*len(id) {
		return id, false
	}
	if _, err := hex.Decode(b[:], []byte(s)); err != nil {
		return id, false
	}
	for i := range len(id) {
		id[i] = b[i]
	}
	return id, true
}
