// Package deadtrace reads and finishes the files of a recorder whose process died. These are a stream,
// app.iet, which may end anywhere, its journal, app.iet.buffer, and a text with the reason why the
// process died. [Finish] locks a stream, determines its state, and does what docs/durability.md says
// for that state. [Folder] finishes the streams of a folder, and [Recover] finishes one file, which need
// not be a stream. [OpenSource] reads the same entries without changing a file. [Keep] removes old
// traces, and [RemoveTemps] removes temporary files.
//
// If the finishing process is killed, finishing can be repeated: the stream is cut to the size in the
// journal's checkpoint before anything is appended, the journal is removed after everything is in the
// stream and on disk, and the stream is removed after the ET is on disk.
package deadtrace
