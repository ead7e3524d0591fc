package deadtrace

// A State is a condition in which a stream can be, see [Table]; Nothing is none of them.
type State uint8

// The states. See [Table] for what is done.
const (
	Nothing State = iota
	Live
	Elsewhere
	NoTrace
	Empty
	Whole
	Torn
	Corrupt
	JournalAlone
	Leftover
)

// The words for people. A stream of which nothing was recorded has none.
const (
	Running = "running" // a process is writing it
	Ended   = "ended"   // its writer has closed it
	Killed  = "killed"  // its writer died before it closed it
	Damaged = "damaged" // it cannot be read to its end
)

// A Row describes a state.
type Row struct {
	State State
	Is    string // what is there
	Done  string // what Finish does
	Word  string // for people
	Test  string // that shows it
}

// Table has a row for each state.
var Table = []Row{
	{Live, "a living process has the stream or its journal locked", "nothing", Running, "TestLocks"},
	{Elsewhere, "the journal is in the memory of another machine or container, or of another version of this module", "a start waits a day for it; `entrace recover` finishes the stream without it", Killed, "TestContainers"},
	{NoTrace, "no IET, or one of another user", "nothing", Damaged, "TestFolderSweepLeftovers"},
	{Empty, "nothing was recorded", "it is removed", "", "TestCreateDropsEmpty"},
	{Whole, "the recorder closed it", "a trace that was to become an ET becomes one", Ended, "TestKillDuringFinalize"},
	{Torn, "the recorder died: the stream ends anywhere, and there may be a journal", "the journal goes behind the whole entries, a mark says that recovery did so, and the ET is made", Killed, "TestKillUnderLoad"},
	{Corrupt, "bytes within the stream are no entries", "the original is kept as `.broken`; the whole entries before the damage go on as those of a torn one", Damaged, "TestKillDuringRecoveryOfCorrupt"},
	{JournalAlone, "a journal without its stream", "a stream is made of it, and is finished as a torn one", Killed, "TestKillDuringRecoveryOfRotation"},
	{Leftover, "a stream whose ET is there with the same entries", "the stream is removed", Ended, "TestKillDuringFinalize"},
}
