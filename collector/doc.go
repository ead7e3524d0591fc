// Package collector is the module of the components for the OpenTelemetry Collector: the exporter entrace
// in entraceexporter, and the receiver entrace_file in entracefilereceiver. builder-config.yaml builds
// a Collector with both components.
package collector
