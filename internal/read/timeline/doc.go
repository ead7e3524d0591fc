// Package timeline lays out the spans of a trace for formats without parent links. It places spans
// on lanes as nested intervals, computes self times, and lists the begins and ends of spans in the
// order of time. The converters use it.
package timeline
