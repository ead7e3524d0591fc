// Package timeline computes a layout of the spans of a trace for formats without parent links. It assigns spans to
// lanes as nested intervals, computes self times, and lists the begins and ends of spans in the order of time. The
// converters use it.
package timeline
