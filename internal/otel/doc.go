// Package otel maps OpenTelemetry's spans, links, events, log records and resources to entries and back. Only
// this package knows which attribute holds which field. The exporter converts the SDK's data to the types of
// this package, and the converters do the same for OTLP and other formats. Programs that show a trace use the
// package to read entries. The documentation of packages exporter and slogadapter describes the mapping.
package otel
