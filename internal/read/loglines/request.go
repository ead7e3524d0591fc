package loglines

import (
	"regexp"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/otel"
)

// hostOf matches the part before the path, which chi and proxies also write.
var hostOf = regexp.MustCompile(`^https?://[^/]*`)

// request gives the log record of an access log the attributes of a request in OpenTelemetry's conventions. If the
// duration of the request is known, it also sets r.Span.
func (r *Record) request() {
	l := &r.Log
	path, query, _ := strings.Cut(r.path[len(hostOf.FindString(r.path)):], "?")
	l.Attributes = slices.DeleteFunc(l.Attributes, func(a otel.Attribute) bool {
		m := meanings[strings.ToLower(a.Name)]
		return m != nil && (m.kind == aMethod || m.kind == aPath || m.kind == aStatus || m.kind == aDuration && r.took >= 0)
	})
	for _, a := range [...][2]string{{"http.request.method", r.method}, {"url.path", path}, {"url.query", query}} {
		if a[1] != "" {
			l.Attributes.Add(a[0], format.StringValue(a[1]))
		}
	}
	l.Attributes.Add("http.response.status_code", format.I64Value(r.status))
	l.Failed = r.status >= 500
	name := nameOf(r.method, path)
	if !r.has(aMessage) {
		l.Body = otel.TextAny(name)
	}
	if r.took < 0 || strings.HasPrefix(l.Scope.Name, caddyErrors) {
		return
	}
	r.Span = &otel.Span{
		Name: name, TraceID: l.TraceID, SpanID: l.SpanID, Flags: mapping.DefaultTraceFlags, Kind: otel.KindServer,
		Start: l.Time - int64(r.took), Duration: int64(r.took), Ended: true, Scope: l.Scope, Attributes: l.Attributes,
	}
	if r.Shape.starts {
		r.Span.Start = l.Time
	}
	if l.Failed {
		r.Span.Status = otel.StatusError
	}
}

// caddyErrors begins the names of loggers to which Caddy writes why a request failed. The line of the access log, with
// the same path, status and duration, follows, and only one of the two lines may be a span.
const caddyErrors = "http.log.error"

// nameOf returns the name of a request: the method and the path. Parts of the path that have a digit are replaced by
// {id}.
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

// Demote turns the span of an access log into a log record of the span with the same ids, which another file has. If
// the request failed, that span counts as failed.
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
