// Package collector tests package convert/otlp against the OpenTelemetry
// Collector's own code: pdata judges every line and message that is written, and
// the Collector's file exporter writes what is read. It is a module of its own,
// so that what these need stays out of the main one. The exporter runs by itself,
// without a Collector around it: the receiver that one would need cannot be had
// from the module proxy in this version.
//
//	GOWORK=off go test -tags conformance .
//	GOWORK=off go test -tags conformance -run '^$' -bench . .
//	GOWORK=off go test -tags conformance -run TestFileExporter -update . # fixtures
package collector
