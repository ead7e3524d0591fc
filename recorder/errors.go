package recorder

import (
	"errors"

	"github.com/entrace-go/entrace/internal/core/journal"
)

var (
	// ErrClosed is returned by calls that are made after Close.
	ErrClosed = errors.New("recorder: closed")
	// ErrOverflow is returned for records that arrive faster than they can be written. The text of the error
	// says whether the disk or the CPU is the cause.
	ErrOverflow = errors.New("recorder: the buffer is full")
	// ErrUnlinked is reported when the file that a recorder writes was removed or
	// renamed by somebody else.
	ErrUnlinked = errors.New("recorder: the file was removed or renamed during the recording")
	// ErrJournalGone means that the journal of a dead writer was in memory and is gone, because the machine
	// was restarted or somebody removed the journal.
	ErrJournalGone = journal.ErrGone
	// ErrJournalElsewhere means that the journal of a dead writer is in the memory of another machine or
	// container. [Recover] saves its records if it runs there. If it runs here, these records are lost.
	ErrJournalElsewhere = journal.ErrElsewhere
	// errNotOpen means that the end of a span was dropped, because the file has no entry for the span.
	errNotOpen = errors.New("recorder: the file has no entry for the span that ended")
)
