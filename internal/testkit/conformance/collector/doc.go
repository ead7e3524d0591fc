// Package collector tests package convert/otlp with the OpenTelemetry Collector's own code. The Collector's
// package pdata checks every line and message that convert/otlp writes, its file exporter writes the files that
// convert/otlp reads, and its receiver gets the records that 'entrace replay' sends. The exporter and the receiver
// run without a Collector around them. The package is a separate module, so that the main module does not depend
// on the Collector. The receiver is from an older release than the rest, because the newer one needs a module that
// the module proxy does not have.
//
//	GOWORK=off go test -tags conformance .
//	GOWORK=off go test -tags conformance -run '^$' -bench . .
//	GOWORK=off go test -tags conformance -run TestFileExporter -update . # fixtures
package collector
