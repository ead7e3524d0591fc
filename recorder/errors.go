package recorder

import (
	"errors"

	"github.com/entrace-go/entrace/internal/core/journal"
)

var (
	// ErrClosed is returned by calls after Close.
	ErrClosed = errors.New("recorder: closed")
	// ErrOverflow is returned for records that arrive faster than they can be written. The text of the error
	// says whether the disk or the processor is the cause.
	ErrOverflow = errors.New("recorder: the buffer is full")
	// ErrUnlinked is reported when the file that a recorder writes was removed or
	// renamed by somebody else.
	ErrUnlinked = errors.New("recorder: the growing file was removed or renamed")
	// ErrJournalGone says that the journal of a dead writer was in memory and is gone, because
	// the machine was restarted or somebody removed the journal.
	ErrJournalGone = journal.ErrGone
	// ErrJournalElsewhere says that the journal of a dead writer is in the memory of another
	// machine or container. Recovery on that machine saves its records. Recovery on this machine
	// gives them up.
	ErrJournalElsewhere = journal.ErrElsewhere
	// errForeign is returned for a [CallSite] or [Attributes] of another recorder.
	errForeign = errors.New("recorder: the call site or attributes belong to another recorder")
	// errNotOpen says that the end of a span was dropped because the span is not in the file.
	errNotOpen = errors.New("recorder: the file has no entry for the span")
)
