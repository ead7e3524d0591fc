// Package entracefilereceiver is the receiver "entrace_file" of the OpenTelemetry Collector. It reads the
// spans and log records of trace files, ET and IET, and follows files that grow. README.md describes its
// options, and says which records are read again after a restart.
package entracefilereceiver
