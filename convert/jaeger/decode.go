// Package jaeger reads Jaeger's JSON: downloads of its UI, answers of its query service, and the output of
// "docker buildx history trace".
//
//	Trace.processes  resources, with serviceName as service.name
//	Span             a span. Its first reference of type CHILD_OF to the same trace is the parent;
//	                 all other references are links. Without such a parent, the span of the first
//	                 link to the same trace is also the parent
//	Span.logs        events, by their field "event", else "log"
//	tags             attributes; span.kind, otel.status_code, otel.status_description,
//	                 otel.scope.name and .version (also otel.library) and w3c.tracestate become
//	                 the corresponding fields of OpenTelemetry, and "error" the status: true, or a message
//
// Times have microseconds. Jaeger's warnings about a span are in the attribute jaeger.warnings. Tags keep their
// types. A tag with a list is a text, as in Jaeger.
package jaeger

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/entrace-go/entrace/convert/internal/foreign"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/read/input"
)

type document struct {
	Data []trace `json:"data"`
	trace
}

type trace struct {
	Spans     []span             `json:"spans"`
	Processes map[string]process `json:"processes"`
}

type process struct {
	ServiceName string `json:"serviceName"`
	Tags        []tag  `json:"tags"`
}

type span struct {
	TraceID       string         `json:"traceID"`
	SpanID        string         `json:"spanID"`
	ParentSpanID  string         `json:"parentSpanID"` // only old versions have it
	Flags         foreign.Number `json:"flags"`
	OperationName string         `json:"operationName"`
	References    []struct {
		RefType string `json:"refType"`
		TraceID string `json:"traceID"`
		SpanID  string `json:"spanID"`
	} `json:"references"`
	StartTime foreign.Number `json:"startTime"`
	Duration  foreign.Number `json:"duration"`
	Tags      []tag          `json:"tags"`
	Logs      []struct {
		Timestamp foreign.Number `json:"timestamp"`
		Fields    []tag          `json:"fields"`
	} `json:"logs"`
	ProcessID string   `json:"processID"`
	Process   *process `json:"process"`
	Warnings  []string `json:"warnings"`
}

type tag struct {
	Key   string          `json:"key"`
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
}

var errNoSpans = errors.New("no Jaeger span in \"data\" or \"spans\"")

// Decode reads Jaeger's JSON from r and writes its traces to w, parents before children. It does not close w. It keeps
// one document of at most 256 MiB in memory. If the input is damaged, Decode writes the documents before the damage,
// and the error is an *Error of package convert.
func Decode(ctx context.Context, r io.Reader, w *format.Writer) error {
	return foreign.Decode(ctx, r, w, "document", func(d *document, add foreign.Adder) bool {
		if len(d.Data) == 0 && len(d.Spans) == 0 {
			return add(nil, errNoSpans)
		}
		for i, t := range append(d.Data, d.trace) {
			for _, spans := range t.byProcess() {
				record := foreign.Record{Resource: t.resource(&t.Spans[spans[0]])}
				for _, j := range spans {
					s, err := t.Spans[j].span()
					if err == nil {
						record.Spans = append(record.Spans, s)
					} else if !add(nil, &input.Error{Field: fmt.Sprintf("data[%d].spans[%d]", i, j), Err: err}) {
						return false
					}
				}
				if !add(&record, nil) {
					return false
				}
			}
		}
		return true
	})
}

// byProcess returns the indexes of the spans of each process, ordered by the first span of the process. Spans are
// grouped so that each process, which may be large, is written only once.
func (t *trace) byProcess() (all [][]int) {
	known := make(map[string]int)
	for i := range t.Spans {
		id := t.Spans[i].ProcessID
		n, ok := known[id]
		if !ok || t.Spans[i].Process != nil {
			n = len(all)
			known[id] = n
			all = append(all, nil)
		}
		all[n] = append(all[n], i)
	}
	return all
}

// resource returns the resource of a span's process.
func (t *trace) resource(from *span) (r otel.Resource) {
	p := from.Process
	if of, ok := t.Processes[from.ProcessID]; ok {
		p = &of
	}
	if p != nil {
		if p.ServiceName != "" {
			r.Attributes = otel.Attributes{otel.Text("service.name", p.ServiceName)}
		}
		r.Attributes = attributes(r.Attributes, p.Tags)
	}
	return r
}

func (from *span) span() (*otel.Span, error) {
	s := &otel.Span{
		Name: from.OperationName, Flags: 0x100 | uint32(max(from.Flags, 0))&0xff, Kind: otel.KindInternal,
		Start: from.StartTime.Micros(), Duration: from.Duration.Micros(), Ended: true, Attributes: attributes(nil, from.Tags),
	}
	ok := foreign.ID(s.TraceID[:], from.TraceID) && foreign.ID(s.SpanID[:], from.SpanID) && foreign.ID(s.Parent[:], from.ParentSpanID)
	for _, ref := range from.References {
		l := otel.Link{Flags: 0x101}
		ok = ok && foreign.ID(l.TraceID[:], ref.TraceID) && foreign.ID(l.SpanID[:], ref.SpanID)
		switch {
		case l.SpanID == [8]byte{}: // in files of buildx, a root span has a parent with a zero id
		case ref.RefType == "CHILD_OF" && l.TraceID == s.TraceID && (s.Parent == [8]byte{} || s.Parent == l.SpanID):
			s.Parent = l.SpanID
		default:
			l.Attributes = otel.Attributes{otel.Text("jaeger.ref_type", ref.RefType)}
			s.Links = append(s.Links, l)
		}
	}
	if !ok {
		return nil, foreign.ErrID
	}
	err := foreign.Numbers(from.StartTime, from.Duration)
	for _, log := range from.Logs {
		err = cmp.Or(err, foreign.Numbers(log.Timestamp))
	}
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(s.Links, func(l otel.Link) bool { return l.TraceID == s.TraceID && l.SpanID != s.SpanID }); s.Parent == [8]byte{} && i >= 0 {
		s.Parent = s.Links[i].SpanID // as in Jaeger, if there is no CHILD_OF
	}
	foreign.Marks(s)
	if i := slices.IndexFunc(s.Attributes, isError); i >= 0 && s.Status != otel.StatusOK {
		s.Status = otel.StatusError
		if text := s.Attributes[i].Value.Text(); !strings.EqualFold(text, "true") {
			s.Description = cmp.Or(s.Description, text)
		}
		s.Attributes = slices.Delete(s.Attributes, i, i+1)
	}
	if len(from.Warnings) > 0 {
		v := otel.Any{Kind: otel.List}
		for _, text := range from.Warnings {
			v.List = append(v.List, otel.TextAny(text))
		}
		s.Attributes = append(s.Attributes, otel.NewAttribute("jaeger.warnings", &v))
	}
	for _, log := range from.Logs {
		ev := otel.Event{Time: log.Timestamp.Micros(), HasTime: log.Timestamp != 0, Attributes: attributes(nil, log.Fields)}
		ev.Name = cmp.Or(foreign.Text(&ev.Attributes, "event"), "log")
		s.Events = append(s.Events, ev)
	}
	return s, nil
}

// isError reports whether a tag says that its span failed. Some programs write the boolean, or a message, as a text.
func isError(a otel.Attribute) bool {
	text := a.Value.Text()
	return a.Name == "error" && (a.Value.Bool() || text != "" && !strings.EqualFold(text, "false"))
}

// attributes appends tags as attributes. If a value does not have the type of its tag, the attribute has the type of
// the JSON value.
func attributes(attrs otel.Attributes, tags []tag) otel.Attributes {
	for _, t := range tags {
		v := foreign.Any(t.Value)
		switch {
		case t.Type == "float64" && v.Kind == otel.Int:
			v = otel.Any{Kind: otel.Float, Float: float64(v.Int)}
		case t.Type == "binary" && v.Kind == otel.String:
			if b, err := base64.StdEncoding.DecodeString(v.Text); err == nil {
				v = otel.Any{Kind: otel.Bytes, Text: string(b)}
			}
		case t.Type == "int64" && v.Kind == otel.String: // a large number may be a text
			if n, err := strconv.ParseInt(v.Text, 10, 64); err == nil {
				v = otel.IntAny(n)
			}
		}
		attrs = append(attrs, otel.NewAttribute(t.Key, &v))
	}
	return attrs
}
