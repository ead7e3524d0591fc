// Package otel maps OpenTelemetry's spans, links, events, log records and resources to
// entries and back. Only this package knows which attribute holds which field. The exporter
// fills its types from the SDK, and the converters fill them from OTLP and other formats.
// Programs that show a trace read entries with it. The documentation of packages exporter
// and slogadapter describes the mapping.
package otel
