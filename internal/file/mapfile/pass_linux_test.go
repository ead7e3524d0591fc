package mapfile_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/file/mapfile"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

// TestPassKeepsNoMemory reads a file in pieces, and expects that the pieces do not add to the memory of the process.
func TestPassKeepsNoMemory(t *testing.T) {
	name := hosttest.Path(t, "x")
	const size, piece = 64 << 20, 300_001
	if err := os.WriteFile(name, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := mapfile.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	before, sum := mappedKiB(t), 0
	for at := int64(0); at+piece <= size; at += piece {
		err := f.View(at, piece, func(b []byte) error {
			for i := 0; i < len(b); i += 512 {
				sum += int(b[i])
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if more := mappedKiB(t) - before; more > 8<<10 || sum != 0 {
		t.Errorf("%d KiB of the file are still mapped", more)
	}
}

// mappedKiB returns how much memory of the process is mapped from files.
func mappedKiB(t *testing.T) int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssFile:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
