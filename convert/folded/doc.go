// Package folded converts the spans of a trace, or the samples of a CPU profile in the trace, to stacks of time
// for viewers that draw flame graphs. It writes the folded stacks of Brendan Gregg's FlameGraph scripts, which
// inferno also reads, and the files of speedscope.
//
// Neither format stores parents, so the package first assigns spans to lanes, one set of lanes for each
// resource. The spans of one lane nest strictly. A span is on the lane of its parent if it lies within the
// parent and does not overlap a sibling there. Otherwise it is on another lane. The stack of a span has the
// name of its service, and then the spans that contain it on its lane. A span that has not ended lasts to the
// end of its file.
//
// # Folded stacks
//
// [EncodeFolded] writes a line for each stack,
//
//	service;outer;inner 123
//
// The number is the time in nanoseconds of all spans with that stack, minus the time of the spans directly
// inside them on their lanes. Lines are sorted by name, frame by frame. Stacks with no time are left out. The
// first frame is the service.name of the resource, or unknown_service.
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
// [EncodeFoldedCPU] and [EncodeSpeedscopeCPU] write samples of the code that was running on a processor: the
// entries cpu.profile of package control/provider, and the samples that convert/gotrace reads from an execution
// trace. The stack of a sample has the name of its service, the spans above the sample, and then the functions.
// The weight of a sample is processor time. The runtime takes 100 samples per second of processor time. The
// file for speedscope has a sampled profile for each service. A span that took less than some 10 ms has no
// sample in most cases, so add up the samples of all spans with the same name.
//
// # What is lost
//
// Only names, times and the nesting of spans are kept. Lost are ids, attributes, kinds, status, events, links
// and log records, and the parent of a span that is not on the lane of its parent. Folded stacks keep sums
// instead of times. A stack is cut at 512 frames or 16 KiB; the time of deeper frames is added to the last
// frame. speedscope stores times as doubles, so times beyond 2^53 ns (104 days) are rounded.
//
// A conversion back is not possible.
package folded
