package tracename

import "testing"

// TestFileNameIsNoFlag checks that a file name never begins with "-", because a command would read it as a flag.
func TestFileNameIsNoFlag(t *testing.T) {
	if got := FileName("-rf a-b"); got != "%2Drf%20a-b" {
		t.Errorf("got %s", got)
	}
}
