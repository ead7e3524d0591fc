package deadtrace

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A row describes a state.
type row struct {
	state state
	is    string // what is there
	done  string // what Finish does
	word  string // for people
	test  string // that shows it
}

// table has a row for each state.
var table = []row{
	{stateLive, "a living process has the stream or its journal locked", "nothing", Running, "TestLocks"},
	{stateElsewhere, "the journal is in the memory of another machine or container, or of another version of this module", "a start waits a day for it; `entrace recover` finishes the stream without it", Killed, "TestContainers"},
	{stateNoTrace, "no IET, or one of another user", "nothing", Damaged, "TestFolderSweepLeftovers"},
	{stateEmpty, "nothing was recorded", "it is removed", "", "TestCreateDropsEmpty"},
	{stateWhole, "the recorder closed it", "a trace that was to become an ET becomes one", Ended, "TestKillDuringFinalize"},
	{stateTorn, "the recorder died: the stream ends anywhere, and there may be a journal", "the journal goes behind the whole entries, a mark says that recovery did so, and the ET is made", Killed, "TestKillUnderLoad"},
	{stateCorrupt, "bytes within the stream are no entries", "the original is kept as `.broken`; the whole entries before the damage go on as those of a torn one", Damaged, "TestKillDuringRecoveryOfCorrupt"},
	{stateJournalAlone, "a journal without its stream", "a stream is made of it, and is finished as a torn one", Killed, "TestKillDuringRecoveryOfRotation"},
	{stateLeftover, "a stream whose ET is there with the same entries", "the stream is removed", Ended, "TestKillDuringFinalize"},
}

// TestTableIsInTheDocs: docs/durability.md has the table of states, and each of their tests exists.
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
		if err != nil {
			t.Fatal(err)
		}
	}
	var want strings.Builder
	want.WriteString("| what there is | what is done | it is | test |\n| --- | --- | --- | --- |\n")
	for _, r := range table {
		want.WriteString("| " + r.is + " | " + r.done + " | " + r.word + " | `" + r.test + "` |\n")
		if !strings.Contains(tests.String(), "\nfunc "+r.test+"(") {
			t.Errorf("there is no test %s", r.test)
		}
	}
	doc, err := os.ReadFile("../../../docs/durability.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.ReplaceAll(string(doc), "\r\n", "\n"), want.String()) {
		t.Errorf("docs/durability.md lacks this table:\n%s", want.String())
	}
}
