package recorder

import (
	"errors"

	"github.com/entrace-go/entrace/internal/journal"
)

var (
	// ErrClosed is returned by what was closed before.
	ErrClosed = errors.New("recorder: closed")
	// ErrOverflow is returned for what comes faster than the disk takes it.
	ErrOverflow = errors.New("recorder: the buffer is full: the disk does not keep up")
	// ErrUnlinked is what a recorder reports when the name of the file that it
	// writes leads elsewhere: somebody removed or renamed it.
	ErrUnlinked = errors.New("recorder: the growing file was removed or renamed")
	// ErrJournalGone says that the journal of a dead writer was in memory and is gone: its
	// machine was started anew, or somebody has removed it.
	ErrJournalGone = journal.ErrGone
	// ErrJournalElsewhere says that the journal of a dead writer is in the memory of another
	// machine or container. Recovering there brings it in. Recovering here gives it up.
	ErrJournalElsewhere = journal.ErrElsewhere
	// errForeign is returned for a [CallSite] or [Attributes] of another recorder.
	errForeign = errors.New("recorder: a call site or attributes of another recorder")
	// errNotOpen is why the end of a span was dropped that is not in the file.
	errNotOpen = errors.New("recorder: no entry of that span")
)
