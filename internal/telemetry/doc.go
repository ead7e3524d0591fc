// Package telemetry reads entries as what they are in OpenTelemetry's terms, and
// makes such entries: spans with their links and events, log records, resources,
// and attributes of every kind. What becomes which entry and which attribute is in
// the documentation of packages exporter and slogadapter.
//
// It serves the converters. What records, encodes in place.
package telemetry
