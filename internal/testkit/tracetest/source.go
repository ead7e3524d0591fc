package tracetest

import (
	"slices"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/view"
)

// A Source reads spans and log records of a trace from its view.
//
// A Source is not safe for concurrent use.
type Source struct {
	v *view.View

	resources map[view.Row]*otel.Resource
}

// NewSource returns a source of v.
func NewSource(v *view.View) *Source {
	return &Source{v: v, resources: make(map[view.Row]*otel.Resource)}
}

// Span reads the span at row r with its links and events, in the order in which they were written.
func (s *Source) Span(r view.Row) (*otel.Span, error) {
	e, err := s.v.Entry(r)
	if err != nil {
		return nil, err
	}
	var up format.SpanRef
	if parent := view.Row(e.Parent); s.v.Role(parent) == view.RoleSpan {
		up = s.v.Ref(parent)
	}
	span := otel.ReadSpan(e, up)
	span.ID = uint32(r)
	kids := s.v.Children(r)
	slices.Sort(kids)
	for _, kid := range kids {
		role := s.v.Role(kid)
		if role != view.RoleLink && role != view.RoleEvent {
			continue
		}
		e, err := s.v.Entry(kid)
		if err != nil {
			return nil, err
		}
		if role == view.RoleLink {
			span.Links = append(span.Links, otel.ReadLink(e))
			continue
		}
		ev := new(otel.Reader).Event(e)
		ev.ID = uint32(kid)
		span.Events = append(span.Events, ev)
	}
	return span, nil
}

// Log reads the log record at row r.
func (s *Source) Log(r view.Row) (*otel.Log, error) {
	e, err := s.v.Entry(r)
	if err != nil {
		return nil, err
	}
	l := new(otel.Reader).Log(e)
	l.ID = uint32(r)
	return l, nil
}

// Resource reads the resource at row r. For row 0 it returns an empty resource.
func (s *Source) Resource(r view.Row) (*otel.Resource, error) {
	if known, ok := s.resources[r]; ok {
		return known, nil
	}
	resource := new(otel.Resource)
	if r != 0 {
		e, err := s.v.Entry(r)
		if err != nil {
			return nil, err
		}
		resource = otel.ReadResource(e)
	}
	s.resources[r] = resource
	return resource, nil
}
