// Package telemetry reads entries as what they are in OpenTelemetry's terms, and
// makes such entries: spans with their links and events, log records, resources,
// and attributes of every kind. What becomes which entry and which attribute is in
// the documentation of packages exporter and slogadapter.
//
// For formats without parents, a Timeline has spans on lanes and all that happens
// in the order of time.
//
// It serves the converters. What records, encodes in place.
package telemetry
