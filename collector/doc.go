// Package collector is the module of the components for the OpenTelemetry Collector: the exporter entrace
// in entraceexporter, and the receiver entrace_file in entracefilereceiver. With builder-config.yaml you
// can build a Collector that has both.
package collector
