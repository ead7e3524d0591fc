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
	done  string // the action of recovery
	word  string // the word for people
	test  string // a test of this state
}

// table has a row for each state.
var table = []row{
	{stateLive, "a stream or a journal that a living process has locked", "nothing", Running, "TestLocks"},
	{stateElsewhere, "a stream whose journal is in the memory of another machine or container, or was written by another version of this module", "a start of the program does nothing. If the journal is out of reach, `entrace recover` finishes the stream at once without the journal, and a start does so a day later", Killed, "TestContainers"},
	{stateNoTrace, "a file that is not an IET, or an IET of another user", "nothing", Damaged, "TestFolderSweepLeftovers"},
	{stateNotWritable, "a file that recovery would change, but this user may not", "nothing; the error says why", Killed, "TestRecoverWithoutRights"},
	{stateFinished, "a complete ET, or an IET that is to stay an IET", "removes an IET with the same entries next to the ET", Ended, "TestCutAtEveryByte"},
	{stateEmpty, "a stream without entries", "removes the stream, unless a user has named it", "", "TestCreateDropsEmpty"},
	{stateWhole, "a stream that the recorder closed", "makes the ET, unless the trace is to stay an IET", Ended, "TestKillDuringFinalize"},
	{stateTorn, "a stream whose recorder died; it may end inside an entry, and there may be a journal", "appends the journal and then the recovery mark to the complete entries, and makes the ET", Killed, "TestKillUnderLoad"},
	{stateCorrupt, "a file with bytes in the middle that are not entries, or an ET that ends early", "keeps the original as `.broken`, and finishes the complete entries before the damage like the stream of a dead recorder", Damaged, "TestKillDuringRecoveryOfCorrupt"},
	{stateJournalAlone, "a journal without its stream", "makes a stream from the journal, and finishes it like the stream of a dead recorder", Killed, "TestKillDuringRecoveryOfRotation"},
	{stateLeftover, "a stream and an ET with the same entries", "removes the stream", Ended, "TestKillDuringFinalize"},
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
		expect.Has(t, tests.String(), "\nfunc "+r.test+"(", "the tests have")
	}
	doc, err := os.ReadFile("../../../docs/durability.md")
	expect.Must(t, err)
	expect.Has(t, strings.ReplaceAll(string(doc), "\r\n", "\n"), want.String(), "docs/durability.md has")
}
