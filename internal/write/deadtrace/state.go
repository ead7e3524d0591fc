package deadtrace

// A state is the condition of a stream. docs/durability.md has a row for each state: the files that are
// found, and what Finish does.
type state uint8

// The states. Finish determines one before it changes a file.
const (
	stateNothing state = iota // none of the other states
	stateLive
	stateElsewhere
	stateNoTrace
	stateEmpty
	stateWhole
	stateTorn
	stateCorrupt
	stateJournalAlone
	stateLeftover
)

// The words for the states in messages. A stream without records has no word.
const (
	Running = "running" // a process is writing the stream
	Ended   = "ended"   // the writer has closed the stream
	Killed  = "killed"  // the writer died before it closed the stream
	Damaged = "damaged" // the stream cannot be read to its end
)
