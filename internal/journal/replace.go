package journal

import (
	"errors"
	"runtime"

	"github.com/entrace-go/entrace/internal/osfile"
)

// Replace gives j, which was made to replace old and which nobody appends to yet, the name
// of old in one step, and removes old. The shards of old are closed, and a checkpoint of j
// says that what they held is in the trace. When it fails, old is as it was. On Windows,
// where an open file cannot be replaced, old goes first.
func (j *Journal) Replace(old *Journal) error {
	if runtime.GOOS == "windows" {
		_ = old.Remove() // what it held is in the trace
	}
	if j.o.Beside != "" {
		_ = old.pool.noteLost(unneeded) // else it stays for a day if this process dies before it is removed
		if err := j.pointTo(osfile.RenameOver); err != nil {
			return errors.Join(err, old.pool.noteLost(0))
		}
	} else {
		if err := osfile.RenameOver(j.pool.name, j.replaces); err != nil {
			return err
		}
		j.pool.name = j.replaces
	}
	_ = old.Remove() // only what is still its own
	return nil
}
