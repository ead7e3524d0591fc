// Package deadtrace reads and finishes the files of a recorder whose process died: a stream, app.iet, which
// may be cut anywhere; its journal, app.iet.buffer; and a text with the reason of the death. [Finish] locks
// a stream, determines its state, and does what docs/durability.md says for this state. [Folder] finishes
// the streams of a folder. [Recover] finishes one file, which need not be a stream. [OpenSource] reads the
// same entries without changing a file. [Keep] removes old traces, and [RemoveTemps] temporary files.
//
// If the finishing process is killed, another process can finish the same files again: before anything is
// appended, the stream is cut to the size in the journal's checkpoint. The journal is removed after its
// records are in the stream and on disk, and the stream is removed after the ET is on disk.
package deadtrace
