// Package deadtrace reads and finishes what the recorder of a process that died has left: a stream,
// app.iet, that ends anywhere, the journal app.iet.buffer beside it, and the reason why the process
// died. [Finish] locks a stream, determines its state, and does what docs/durability.md says for that
// state. [Folder] finishes the streams of a folder, and [Recover] finishes one file, which need not be
// a stream. [OpenSource] reads the same entries without changing a file. [Keep] removes old traces, and
// [RemoveTemps] removes temporary files.
//
// If the finishing process is killed, finishing can be repeated: the stream is cut to the size in the
// journal's checkpoint before anything is appended, the journal is removed after everything is in the
// stream and on disk, and the stream is removed after the ET is on disk.
package deadtrace
