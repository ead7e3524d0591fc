// Package zipkin reads the JSON of Zipkin's API, version 2: arrays of spans, and spans one
// behind the other.
//
//	localEndpoint   the resource: service.name, and host.ip, host.port of its address
//	remoteEndpoint  peer.service, network.peer.address, network.peer.port
//	kind            the span's kind; a span without one is internal
//	annotations     events without attributes
//	tags            attributes, all of them texts; otel.status_code, otel.status_description,
//	                error, otel.scope.name and .version are where OpenTelemetry has them
//	shared, debug   zipkin.shared, zipkin.debug
//
// Times have microseconds. A span without a duration has not ended. OpenTelemetry's exporters
// write the attributes of a resource among the tags of its spans, where they stay.
package zipkin

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/convert/internal/foreign"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
)

type span struct {
	TraceID        string          `json:"traceId"`
	ID             string          `json:"id"`
	ParentID       string          `json:"parentId"`
	Kind           string          `json:"kind"`
	Name           string          `json:"name"`
	Timestamp      foreign.Micros  `json:"timestamp"`
	Duration       *foreign.Micros `json:"duration"`
	LocalEndpoint  endpoint        `json:"localEndpoint"`
	RemoteEndpoint endpoint        `json:"remoteEndpoint"`
	Annotations    []struct {
		Timestamp foreign.Micros `json:"timestamp"`
		Value     string         `json:"value"`
	} `json:"annotations"`
	Tags   map[string]string `json:"tags"`
	Shared bool              `json:"shared"`
	Debug  bool              `json:"debug"`
}

type endpoint struct {
	ServiceName string `json:"serviceName"`
	IPv4        string `json:"ipv4"`
	IPv6        string `json:"ipv6"`
	Port        int64  `json:"port"`
}

// Decode reads spans of Zipkin from r and writes them to w, parents before children. It does not
// close w. Where the input is damaged the error is an *Error of package convert; the spans before
// it are written.
func Decode(ctx context.Context, r io.Reader, w *format.Writer) error {
	return foreign.Decode(ctx, r, w, "span", func(s *span, add foreign.Adder) bool { return add(s.record()) })
}

func (from *span) record() (*foreign.Record, error) {
	s := &otel.Span{Name: from.Name, Kind: otel.KindInternal, Start: from.Timestamp.Nano(), Flags: 0x101}
	if !foreign.ID(s.TraceID[:], from.TraceID) || !foreign.ID(s.SpanID[:], from.ID) || !foreign.ID(s.Parent[:], from.ParentID) {
		return nil, foreign.ErrID
	}
	if from.Duration != nil {
		s.Duration, s.Ended = from.Duration.Nano(), true
	}
	for _, name := range slices.Sorted(maps.Keys(from.Tags)) {
		s.Attributes = append(s.Attributes, otel.Attribute{Name: name, Value: format.StringValue(from.Tags[name])})
	}
	foreign.Marks(s)
	if kind, ok := otel.ParseSpanKind(strings.ToLower(from.Kind)); ok {
		s.Kind = kind
	}
	if text, failed := from.Tags["error"]; failed && s.Status != otel.StatusOK {
		foreign.Text(&s.Attributes, "error")
		if s.Status = otel.StatusError; s.Description == "" {
			s.Description = text
		}
	}
	s.Attributes = from.RemoteEndpoint.attributes(s.Attributes, "peer.service", "network.peer.address", "network.peer.port")
	if from.Shared {
		s.Attributes = append(s.Attributes, otel.Attribute{Name: "zipkin.shared", Value: format.BoolValue(true)})
	}
	if from.Debug {
		s.Attributes = append(s.Attributes, otel.Attribute{Name: "zipkin.debug", Value: format.BoolValue(true)})
	}
	for _, a := range from.Annotations {
		s.Events = append(s.Events, otel.Event{Name: a.Value, Time: a.Timestamp.Nano(), HasTime: true})
	}
	resource := otel.Resource{Attributes: from.LocalEndpoint.attributes(nil, "service.name", "host.ip", "host.port")}
	return &foreign.Record{Resource: resource, Spans: []*otel.Span{s}}, nil
}

// attributes appends attributes of what e says, by these names.
func (e *endpoint) attributes(attrs otel.Attributes, service, address, port string) otel.Attributes {
	for _, a := range [...]struct{ name, value string }{{service, e.ServiceName}, {address, e.IPv4}, {address, e.IPv6}} {
		if a.value != "" {
			attrs = append(attrs, otel.Attribute{Name: a.name, Value: format.StringValue(a.value)})
		}
	}
	if e.Port != 0 {
		attrs = append(attrs, otel.Attribute{Name: port, Value: format.I64Value(e.Port)})
	}
	return attrs
}
