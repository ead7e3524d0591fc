// Package tail reads the end of a trace, and entries that a program adds to it, without reading the whole trace.
//
// A [Part] has the last entries of a large file. It reads the last megabytes of the file and, in an ET, the beginning
// and the end of the table of offsets. So the time does not grow with the number of entries. An IET does not say
// where an entry begins, and the entries of an ET begin after the pool, which would have to be read. So a Part
// searches for entries that follow each other up to the end of the file. In an ET, the table of offsets confirms the
// result.
//
// A [Window] makes small traces from the entries of a Part, or from the entries that a [format.Follower] returns. A
// small trace has the complete rows: log records, events, and spans that have ended. To print the rows, a caller uses
// a view, as for a whole trace. The small trace does not have the parents of the rows, so all rows are below the
// root.
//
// A Part cannot be made of these files, so a caller has to read them as a whole:
//   - a small file
//   - an IET with a prefix before each entry
//   - an IET whose writer died and left entries in its journal
//   - an ET that no recorder wrote, because its entries may not be in the order of time
//   - a damaged file, and a file in which the search does not surely find the last entries
package tail
