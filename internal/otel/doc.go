// Package otel maps OpenTelemetry's spans, links, events, log records and resources to
// entries and back. It is the one place that knows which attribute says what: the exporter
// fills its types from the SDK, the converters from OTLP and other formats, and whoever
// shows a trace reads entries with it. What becomes what is in the documentation of
// packages exporter and slogadapter.
package otel
