package tracename

import (
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// TestFileNameIsNoFlag checks that a file name never begins with "-", because a command would read it as a flag.
func TestFileNameIsNoFlag(t *testing.T) {
	expect.Equal(t, FileName("-rf a-b"), "%2Drf%20a-b", "FileName")
}
