package deadtrace

// A state is the condition of a file. The package documentation has a table of them; docs/durability.md says
// the same for users.
type state uint8

// The states. deadFile.look determines the state before a file is changed. States after stateFinished require changes.
const (
	stateNothing state = iota // none of the other states
	stateLive
	stateElsewhere
	stateNoTrace
	stateNotWritable
	stateFinished
	stateEmpty
	stateLeftover
	stateWhole
	stateTorn
	stateCorrupt
	stateJournalAlone
)

// The words for the states in messages. A stream without records has no word.
const (
	Running = "running" // a process is writing the stream
	Ended   = "ended"   // the writer has closed the stream
	Killed  = "killed"  // the writer died before it closed the stream
	Damaged = "damaged" // the stream cannot be read to its end
)
