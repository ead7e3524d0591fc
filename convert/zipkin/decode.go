// Package zipkin reads the JSON of Zipkin's API, version 2: spans in arrays or in sequence.
//
//	localEndpoint   the resource: service.name, and host.ip, host.port of its address
//	remoteEndpoint  peer.service, network.peer.address, network.peer.port
//	kind            the span's kind; a span without one is internal
//	annotations     events without attributes
//	tags            attributes, all of them texts; otel.status_code, otel.status_description,
//	                error, otel.scope.name and .version become OpenTelemetry's fields
//	shared, debug   zipkin.shared, zipkin.debug. Both halves of a shared span keep their ids; in a view, the
//	                server's half is below the client's half
//
// Times have microseconds. A span without a duration has not ended. OpenTelemetry's exporters write the attributes of
// a resource among the tags of its spans; these tags remain attributes of the spans.
package zipkin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
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
	Timestamp      foreign.Number  `json:"timestamp"`
	Duration       *foreign.Number `json:"duration"`
	LocalEndpoint  endpoint        `json:"localEndpoint"`
	RemoteEndpoint endpoint        `json:"remoteEndpoint"`
	Annotations    []struct {
		Timestamp foreign.Number `json:"timestamp"`
		Value     foreign.Loose  `json:"value"`

		Version1 *json.RawMessage `json:"endpoint"` // only version 1 has it
	} `json:"annotations"`
	Tags   map[string]foreign.Loose `json:"tags"`
	Shared bool                     `json:"shared"`
	Debug  bool                     `json:"debug"`

	Version1 json.RawMessage `json:"binaryAnnotations"` // only version 1 has it
}

type endpoint struct {
	ServiceName string         `json:"serviceName"`
	IPv4        string         `json:"ipv4"`
	IPv6        string         `json:"ipv6"`
	Port        foreign.Number `json:"port"`
}

var errVersion = errors.New("version 1 of Zipkin's JSON is not supported, only version 2")

// Decode reads Zipkin spans from r and writes them to w, parents before children. It does not close w. If the input
// is damaged, Decode writes the spans before the damage, and the error is an *Error of package convert.
func Decode(ctx context.Context, r io.Reader, w *format.Writer) error {
	return foreign.Decode(ctx, r, w, "span", func(s *span, add foreign.Adder) bool { return add(s.record()) })
}

func (from *span) record() (*foreign.Record, error) {
	s := &otel.Span{Name: from.Name, Kind: otel.KindInternal, Start: from.Timestamp.Micros(), Flags: 0x101}
	if !foreign.ID(s.TraceID[:], from.TraceID) || !foreign.ID(s.SpanID[:], from.ID) || !foreign.ID(s.Parent[:], from.ParentID) {
		return nil, foreign.ErrID
	}
	err := foreign.Numbers(from.Timestamp, from.LocalEndpoint.Port, from.RemoteEndpoint.Port)
	if from.Duration != nil {
		s.Duration, s.Ended = from.Duration.Micros(), true
		err = cmp.Or(err, foreign.Numbers(*from.Duration))
	}
	version1 := len(from.Version1) > 0
	for _, a := range from.Annotations {
		err = cmp.Or(err, foreign.Numbers(a.Timestamp))
		version1 = version1 || a.Version1 != nil
	}
	if version1 {
		err = errVersion
	}
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(from.Tags)) {
		s.Attributes.Add(name, format.StringValue(string(from.Tags[name])))
	}
	foreign.Marks(s)
	if kind, ok := otel.ParseSpanKind(strings.ToLower(from.Kind)); ok {
		s.Kind = kind
	}
	if text, failed := from.Tags["error"]; failed && s.Status != otel.StatusOK {
		foreign.Text(&s.Attributes, "error")
		s.Status = otel.StatusError
		if s.Description == "" {
			s.Description = string(text)
		}
	}
	s.Attributes = from.RemoteEndpoint.attributes(s.Attributes, "peer.service", "network.peer.address", "network.peer.port")
	if from.Shared {
		s.Attributes.Add("zipkin.shared", format.BoolValue(true))
	}
	if from.Debug {
		s.Attributes.Add("zipkin.debug", format.BoolValue(true))
	}
	for _, a := range from.Annotations {
		s.Events = append(s.Events, otel.Event{Name: string(a.Value), Time: a.Timestamp.Micros(), HasTime: a.Timestamp != 0})
	}
	resource := otel.Resource{Attributes: from.LocalEndpoint.attributes(nil, "service.name", "host.ip", "host.port")}
	return &foreign.Record{Resource: resource, Spans: []*otel.Span{s}}, nil
}

// attributes appends the fields of e as attributes with the given names.
func (e *endpoint) attributes(attrs otel.Attributes, service, address, port string) otel.Attributes {
	for _, a := range [...]struct{ name, value string }{{service, e.ServiceName}, {address, e.IPv4}, {address, e.IPv6}} {
		if a.value != "" {
			attrs.Add(a.name, format.StringValue(a.value))
		}
	}
	if e.Port != 0 {
		attrs.Add(port, format.I64Value(int64(e.Port)))
	}
	return attrs
}
