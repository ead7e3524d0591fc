// Package sink writes spans and log records in the order that a trace needs: parents before children. An input has
// them in any order, and may be larger than the memory. So the input is read twice: an [Index] holds the offsets and
// the parents that the first reading finds, and determines the order of the second reading. Package receive needs
// this order within a request. The converters write a whole input with a [Writer].
package sink
