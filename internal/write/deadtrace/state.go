package deadtrace

// A state is a condition in which a stream can be. docs/durability.md has a row for each, which says
// what is there and what is done.
type state uint8

// The states.
const (
	stateNothing state = iota // none of the others
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

// The words for people. A stream of which nothing was recorded has none.
const (
	Running = "running" // a process is writing it
	Ended   = "ended"   // its writer has closed it
	Killed  = "killed"  // its writer died before it closed it
	Damaged = "damaged" // it cannot be read to its end
)
