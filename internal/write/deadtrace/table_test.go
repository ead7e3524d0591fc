package deadtrace

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// A row describes a state.
type row struct {
	state state
	is    string // the files that are found
	done  string // what recovery does
	word  string // the word for people
	test  string // a test of this state
}

// table has a row for each state.
var table = []row{
	{stateLive, "a living process holds a lock on the stream or its journal", "nothing", Running, "TestLocks"},
	{stateElsewhere, "the journal is in the memory of another machine or container, or another version of this module wrote it", "a start of the program does nothing. If the journal is out of reach, `entrace recover` finishes the stream without it at once, and a start does so a day later", Killed, "TestContainers"},
	{stateNoTrace, "a file that is not an IET, or an IET of another user", "nothing", Damaged, "TestFolderSweepLeftovers"},
	{stateNotWritable, "a file with something to do, which this user may not change", "nothing; the error says why", Killed, "TestRecoverWithoutRights"},
	{stateFinished, "a whole ET, or an IET that stays as it is", "an IET with the same entries beside the ET is removed", Ended, "TestCutAtEveryByte"},
	{stateEmpty, "nothing was recorded", "the stream is removed, unless a user has named it", "", "TestCreateDropsEmpty"},
	{stateWhole, "the recorder closed the stream", "if the trace was to become an ET, the ET is made", Ended, "TestKillDuringFinalize"},
	{stateTorn, "the recorder died; the stream may end inside an entry, and there may be a journal", "the journal is appended to the whole entries, then the recovery mark, and the ET is made", Killed, "TestKillUnderLoad"},
	{stateCorrupt, "bytes in the middle of the file are not entries, or an ET ends early", "the original is kept as `.broken`; the whole entries before the damage are finished like the stream of a dead recorder", Damaged, "TestKillDuringRecoveryOfCorrupt"},
	{stateJournalAlone, "a journal without its stream", "a stream is made from the journal and finished like the stream of a dead recorder", Killed, "TestKillDuringRecoveryOfRotation"},
	{stateLeftover, "a stream and an ET with the same entries", "the stream is removed", Ended, "TestKillDuringFinalize"},
}

// TestTableIsInTheDocs checks that docs/durability.md has this table, and that its tests exist.
func TestTableIsInTheDocs(t *testing.T) {
	var tests strings.Builder
	for _, dir := range []string{"../../../recorder", "../../../control"} {
		err := filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, "_test.go") {
				return err
			}
			b, err := os.ReadFile(name)
			tests.Write(b)
			return err
		})
		expect.Must(t, err)
	}
	var want strings.Builder
	want.WriteString("| what recovery finds | what it does | state that commands print | test |\n| --- | --- | --- | --- |\n")
	for _, r := range table {
		want.WriteString("| " + r.is + " | " + r.done + " | " + r.word + " | `" + r.test + "` |\n")
		if !strings.Contains(tests.String(), "\nfunc "+r.test+"(") {
			t.Errorf("there is no test %s", r.test)
		}
	}
	doc, err := os.ReadFile("../../../docs/durability.md")
	expect.Must(t, err)
	if !strings.Contains(strings.ReplaceAll(string(doc), "\r\n", "\n"), want.String()) {
		t.Errorf("docs/durability.md lacks this table:\n%s", want.String())
	}
}
