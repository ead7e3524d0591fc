// Package otel maps OpenTelemetry's spans, links, events, log records and resources to entries, and entries back to
// these types. Only this package knows which attribute of an entry holds which field. The exporter converts the SDK's
// data to the types of this package. The converters convert OTLP and other formats to these types. Programs that show
// a trace read entries with this package. The documentation of packages exporter and slogadapter describes the
// mapping.
package otel
