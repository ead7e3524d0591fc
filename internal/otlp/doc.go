// Package otlp maps the types of the OpenTelemetry Collector's pdata to those of package
// internal/otel. It reads and writes nothing.
//
// A function empties what it fills, but keeps its memory. What it fills does not alias
// pdata's bytes; texts are shared, as Go's strings cannot change. Keys that come twice are
// both kept. The attributes that stand for what OTLP has no field for are taken away: see
// AddMarks and TakeMarks of package internal/otel. After an error the result is not whole.
package otlp
