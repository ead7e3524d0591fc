// Package collector tests package convert/otlp against the OpenTelemetry
// Collector's own code: pdata judges every line and message that is written, and
// the Collector's file exporter writes what is read. Its receiver takes what the
// command replays. It is a module of its own, so that what these need stays out of
// the main one. Exporter and receiver run by themselves, without a Collector around
// them. The receiver is of an older release than the rest: the module proxy lacks a
// module that the same one needs.
//
//	GOWORK=off go test -tags conformance .
//	GOWORK=off go test -tags conformance -run '^$' -bench . .
//	GOWORK=off go test -tags conformance -run TestFileExporter -update . # fixtures
package collector
