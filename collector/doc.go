// Package collector is the module of a component for the OpenTelemetry Collector: the exporter entrace in
// entraceexporter. builder-config.yaml builds a Collector with it.
package collector
