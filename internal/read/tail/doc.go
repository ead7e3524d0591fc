// Package tail reads the end of a trace, and what a program adds to it, without reading the trace.
//
// A [Part] has the last entries of a large file. It reads the last megabytes of the file and, of an ET, the beginning and
// the end of the table of offsets. So it reads as much of ten million entries as of one million. Nothing says where an
// entry begins in an IET, or in which place of an ET the entries begin without reading the pool before them. So a Part
// searches for entries that follow each other up to the end of the file. The table of an ET confirms what it has found.
//
// A [Window] makes small traces of entries that follow each other: of those of a Part, and of those that a
// [format.Follower] returns. A small trace has the rows that are complete: log records, events, and spans that have
// ended. To print them, a caller uses a view, as for a whole trace. Their parents are not in it, so all of them are
// below the root.
//
// A file has to be read as a whole if it is
//   - small
//   - an IET with a prefix before each entry
//   - an IET whose writer died and left entries in its journal
//   - an ET that no recorder wrote, because its entries may be in another order than that of time
//   - damaged, or if it is not certain which entries are the last ones
package tail
