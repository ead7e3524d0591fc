// Package collector tests package convert/otlp against the OpenTelemetry
// Collector's own code. pdata checks every line and message that convert/otlp
// writes. The Collector's file exporter writes the files that it reads. The
// Collector's receiver gets the records that the command replays. The exporter and
// the receiver run by themselves, without a Collector around them. This is a
// module of its own, so that the dependencies stay out of the main module. The
// receiver is of an older release than the rest, because the module proxy lacks a
// module that the receiver of the same release needs.
//
//	GOWORK=off go test -tags conformance .
//	GOWORK=off go test -tags conformance -run '^$' -bench . .
//	GOWORK=off go test -tags conformance -run TestFileExporter -update . # fixtures
package collector
