// Package deadtrace reads and finishes what the recorder of a process that died has left: a stream,
// app.iet, that ends anywhere, the journal app.iet.buffer beside it, and the reason why the process
// died. There is one finisher: [Finish] looks at a stream under its lock, finds out in which state it
// is, and does what docs/durability.md has for it. [Folder] does so for the streams of a folder, and
// [Recover] for one that was asked for, which can be any file. [OpenSource] shows the same without
// changing a file. [Keep] and [RemoveTemps] remove what is old and what nobody needs.
//
// A finisher that is killed can be done again at any moment: the stream is cut to what the checkpoint
// in the journal says before anything is written behind it, the journal goes when everything is in the
// stream and on disk, and the stream goes when the ET is.
package deadtrace
