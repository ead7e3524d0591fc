// Package otel maps OpenTelemetry's spans, links, events, log records and resources to entries, and entries back to
// them. Only this package knows which attribute of an entry holds which field. The exporter converts the SDK's data
// to the types of this package. The converters do this for OTLP and other formats. Programs that show a trace read
// entries with this package. The documentation of packages exporter and slogadapter describes the mapping.
package otel
