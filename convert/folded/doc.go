// Package folded converts the spans of a trace, or the samples of a CPU profile in the trace, to stacks of time
// for viewers that draw flame graphs. It writes the folded stacks of Brendan Gregg's FlameGraph scripts, which
// inferno and speedscope also read.
//
// A stack begins with the name of a service. Then comes a span of this service that has no parent or whose parent
// belongs to another service, and then the spans below it, down to the span whose time the line has.
//
// # Folded stacks
//
// [EncodeFolded] writes a line for each stack,
//
//	service;outer;inner 123
//
// The number is the sum of the self times, in nanoseconds, of all spans with this stack, as in the flame graph of the
// viewer. The self time of a span is its duration without the time during which at least one child was open. If
// several spans ran at the same time, the sum has the self time of each. A span that has not ended adds no time, but
// it is in the stacks of the spans below it. Lines are sorted by name, frame by frame. Stacks whose time is 0 are
// omitted. The first frame is the service.name of the resource, or unknown_service.
//
// In names ';' becomes ':', and unprintable characters become spaces. An empty name is "(unnamed)". In a name that
// ends with a space and a number, such as "GET 200", this space becomes '_', because readers would take the number
// for the time.
//
// The format is described at https://github.com/brendangregg/FlameGraph.
//
// # Processor time
//
// [EncodeFoldedCPU] writes samples of the code that was running on a processor: the
// entries cpu.profile of package control/provider, and the samples that convert/gotrace reads from an execution
// trace. The stack of a sample has the name of its service, the spans above the sample, and then the functions. The
// weight of a sample is processor time. The runtime
// takes 100 samples per second of processor time, so a span of less than about 10 ms usually has no sample. Add up
// the samples of all spans with the same name.
//
// # What is lost
//
// Only names, times and the nesting of spans are kept. Lost are ids, attributes, kinds, status, events, links and
// log records, and the parent of a span whose parent belongs to another service. Folded stacks have sums of times,
// not the times themselves. A stack is cut after 512 frames or 16 KiB, and the time of deeper frames is added to
// the last frame.
//
// The format cannot be converted back to a trace.
package folded
