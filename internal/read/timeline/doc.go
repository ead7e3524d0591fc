// Package timeline computes a layout of the spans of a trace for formats without parent links. It assigns spans to
// lanes as nested intervals, and lists spans and marks in the order of time. Package convert/chrome uses it.
package timeline
