package loglines

import (
	"slices"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/otel"
)

// request makes a record of an access log the record of a request: it has the names of OpenTelemetry's conventions. If
// its duration is known, it gets a span.
func (e *entry) request(out *Entry) {
	path, query, _ := strings.Cut(e.path, "?")
	out.Log.Attributes = slices.DeleteFunc(out.Log.Attributes, func(a otel.Attribute) bool {
		is := meanings[strings.ToLower(a.Name)].is
		return is == "method" || is == "path" || is == "status" || is == "took" && e.took >= 0
	})
	for _, a := range [...]struct{ name, value string }{{"http.request.method", e.method}, {"url.path", path}, {"url.query", query}} {
		if a.value != "" {
			out.Log.Attributes.Add(a.name, format.StringValue(a.value))
		}
	}
	out.Log.Attributes.Add("http.response.status_code", format.I64Value(e.status))
	out.Log.Failed = e.status >= 500
	if !e.said {
		out.Log.Body = otel.TextAny(nameOf(e.method, path))
	}
	if e.took < 0 {
		return
	}
	s := &otel.Span{
		Name: nameOf(e.method, path), TraceID: e.trace, SpanID: e.span, Flags: mapping.DefaultTraceFlags, Kind: otel.KindServer,
		Start: e.time - int64(e.took), Duration: int64(e.took), Ended: true, Scope: out.Log.Scope, Attributes: out.Log.Attributes,
	}
	if e.shape.starts {
		s.Start = e.time
	}
	if out.Log.Failed {
		s.Status = otel.StatusError
	}
	out.Span = s
}

// nameOf returns the name of a request: the method and the path, with {id} for the parts of the path that have a digit.
func nameOf(method, path string) string {
	if strings.ContainsAny(path, "0123456789") {
		parts := strings.Split(path, "/")
		for i, part := range parts {
			if strings.ContainsAny(part, "0123456789") {
				parts[i] = "{id}"
			}
		}
		path = strings.Join(parts, "/")
	}
	return method + " " + path
}

// Demote makes a span of an access log the log record of a span with its ids, because another file has that span. If the
// request failed, this span counts as failed.
func Demote(e *format.TraceEntry) {
	s := otel.ReadSpan(e, format.SpanRef{})
	l := otel.Log{
		Body: otel.TextAny(s.Name), Time: s.End(), HasTime: true, Observed: s.End(), Severity: severityInfo, SeverityText: "INFO",
		TraceID: s.TraceID, SpanID: s.SpanID, Flags: mapping.DefaultLogFlags, Scope: s.Scope, Attributes: s.Attributes,
		Failed: s.Status == otel.StatusError,
	}
	if l.Failed {
		l.Severity, l.SeverityText = severityError, "ERROR"
	}
	parent := e.Parent
	l.Fill(e, otel.Where{})
	e.Parent = parent
}
