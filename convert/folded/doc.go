// Package folded turns the spans of a trace into stacks of time, for viewers that
// draw flame graphs: the folded stacks of Brendan Gregg's FlameGraph scripts, which
// inferno reads too, and the files of speedscope.
//
// Neither format knows parents, so spans are put onto lanes first, one set for
// each service: what is on one lane nests strictly. A span goes to the lane of its
// parent if it lies within it and beside no sibling there, else to another. The
// stack of a span is the spans that contain it on its lane, below the name of its service.
// A span that has not ended lasts to the end of the trace.
//
// # Folded stacks
//
// [EncodeFolded] writes a line for each stack,
//
//	service;outer;inner 123
//
// whose number is the time in nanoseconds that all spans of that stack took without
// what is directly in them on their lanes. Lines are in the order of the names,
// frame by frame; those of no time are left out. The first frame is service.name
// of the resource, or unknown_service.
//
// In names ';' becomes ':', and what is not printable a space; a name without
// anything is "(unnamed)". In a name that ends in a space and a number, such as
// "GET 200", the space becomes '_', since readers would take it for a second count.
//
// The format is described at https://github.com/brendangregg/FlameGraph.
//
// # speedscope
//
// [EncodeSpeedscope] writes an evented profile for each lane, in nanoseconds from
// the beginning of the first span in the trace. A frame is a name with the file and
// line of the span's metadata. The schema is
// https://www.speedscope.app/file-format-schema.json.
//
// # What is lost
//
// Everything but names, times and the nesting of spans: ids, attributes, kinds,
// status, events, links, log records, and that a span belongs to a parent from which
// it was put onto another lane. Folded stacks keep no times but sums, and count
// what is deeper than 512 frames or 16 KiB to the last of them. In speedscope, which
// holds times as doubles, those beyond 2^53 ns (104 days) are rounded.
//
// There is no way back.
package folded
