// Package folded turns the spans of a trace, or the samples of a CPU profile in it, into stacks of time, for viewers that
// draw flame graphs: the folded stacks of Brendan Gregg's FlameGraph scripts, which
// inferno reads too, and the files of speedscope.
//
// Neither format has parents, so spans are first put onto lanes, one set of lanes for each resource. The
// spans of one lane nest strictly. A span goes to the lane of its parent if it lies within the parent and
// does not overlap a sibling there. Otherwise it goes to another lane. The stack of a span has the name of
// its service, and then the spans that contain it on its lane. A span that has not ended lasts to the end
// of its file.
//
// # Folded stacks
//
// [EncodeFolded] writes a line for each stack,
//
//	service;outer;inner 123
//
// The number is the time in nanoseconds that all spans with that stack took, without the spans directly
// inside them on their lanes. Lines are in the order of the names, frame by frame; stacks with no time are
// left out. The first frame is service.name of the resource, or unknown_service.
//
// In names ';' becomes ':', and unprintable characters become spaces. An empty name is "(unnamed)". In a
// name that ends in a space and a number, such as "GET 200", the space becomes '_', because readers would
// read the number as a second count.
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
// # Processor time
//
// [EncodeFoldedCPU] and [EncodeSpeedscopeCPU] write samples of where a program was on a processor: the entries cpu.profile
// of package control/provider, and those that convert/gotrace reads from an execution trace. The stack of a
// sample has the name of its service, the spans that it is below, and then the functions. Its weight is the time
// on a processor, as the runtime samples it, 100 times a second. speedscope has a sampled profile for each service.
// A span that took less than some 10 ms has no sample in most cases: add up those of a name.
//
// # What is lost
//
// Only names, times and the nesting of spans are kept. Lost are ids, attributes, kinds, status, events,
// links and log records, and the parent of a span that was put onto another lane. Folded stacks keep sums
// instead of times, and add the time of frames deeper than 512 frames or 16 KiB to the last frame.
// speedscope stores times as doubles, so times beyond 2^53 ns (104 days) are rounded.
//
// A conversion back is not possible.
package folded
