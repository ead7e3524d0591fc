// Package deadtrace reads and finishes the files of a recorder whose process died: a stream, app.iet, which
// may be cut anywhere; its journal, app.iet.buffer; and a text with the reason of the death. [Finish] looks
// at a stream and then acts. [Folder] does so for the streams of a folder, and [Recover] for a file that a
// user has named, which may also be an ET or an IETPrefix. [OpenSource] and [Inspect] look at the same files
// and change nothing. [Keep] removes old traces, and [RemoveTemps] temporary files.
//
// To look means to open the file, lock it unless it is a whole ET, read it with its journal, and find its state:
//
//	state         found                              act                               left
//	live          a lock on the file or the journal  nothing: [format.ErrLocked]       all files
//	elsewhere     a journal for another machine or   nothing at a start; else without  all files
//	              another version of this module     the journal
//	noTrace       no trace, or one of another user   nothing                           the file
//	notWritable   something to do, but only the      nothing: the error of the system  all files
//	              right to read
//	finished      nothing to do: a whole ET, or an   remove the stream that the ET     the ET or IET
//	              IET that stays an IET              was made of
//	empty         no entries except the root, and    remove the stream                 nothing
//	              no user has named the file
//	leftover      a stream, and an ET with the same  remove the stream                 the ET
//	              entries
//	whole         a stream that its writer closed    make the ET                       an ET
//	torn          a stream or IETPrefix that may     cut; append the journal and the   an ET, or the IET
//	              end inside an entry                mark of recovery; make the ET
//	corrupt       other damage, or an ET that ends   link to FILE.broken; replace the  FILE.broken, and
//	              early                              file by its whole entries; then   the file or an ET
//	                                                 as torn
//	journalAlone  a journal without a stream         make the stream; look again       an ET, or the IET
//
// An IETPrefix, and a file whose name does not end in .iet, have no journal, and get a mark only after damage.
//
// If the finishing process is killed, another process can finish the same files again: before a process appends
// anything, it cuts the stream to the size in the journal's checkpoint. It removes the journal after the journal's
// records are in the stream and on disk, and the stream after the ET is on disk.
package deadtrace
