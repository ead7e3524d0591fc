package tracename

import "testing"

// TestFileNameIsNoFlag: no command takes the name of a file for a flag.
func TestFileNameIsNoFlag(t *testing.T) {
	if got := FileName("-rf a-b"); got != "%2Drf%20a-b" {
		t.Errorf("got %s", got)
	}
}
