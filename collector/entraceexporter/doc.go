// Package entraceexporter is the exporter "entrace" of the OpenTelemetry Collector. It records spans and
// log records to trace files, with the durability, the rotation and the retention of package recorder.
// README.md describes its options.
package entraceexporter
