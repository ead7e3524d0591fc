// Package telemetry has the Timeline, for formats without parents: spans on lanes, and all
// that happens in the order of time. It serves the converters.
package telemetry
