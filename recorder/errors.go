package recorder

import (
	"errors"

	"github.com/entrace-go/entrace/internal/core/journal"
)

var (
	// ErrClosed is returned by calls after Close.
	ErrClosed = errors.New("recorder: closed")
	// ErrOverflow is returned for records that come faster than they can be written. The text of the error says
	// whether the disk or the processor is the cause.
	ErrOverflow = errors.New("recorder: the buffer is full")
	// ErrUnlinked is reported when somebody removed or renamed the file that a
	// recorder writes.
	ErrUnlinked = errors.New("recorder: the growing file was removed or renamed")
	// ErrJournalGone says that the journal of a dead writer was in memory and is gone: its
	// machine was started anew, or somebody has removed it.
	ErrJournalGone = journal.ErrGone
	// ErrJournalElsewhere says that the journal of a dead writer is in the memory of another
	// machine or container. Recovering there brings it in. Recovering here gives it up.
	ErrJournalElsewhere = journal.ErrElsewhere
	// errForeign is returned for a [CallSite] or [Attributes] of another recorder.
	errForeign = errors.New("recorder: the call site or attributes belong to another recorder")
	// errNotOpen says that the end of a span was dropped because the span is not in the file.
	errNotOpen = errors.New("recorder: the file has no entry for the span")
)
