package journal

import (
	"errors"
	"runtime"

	"github.com/entrace-go/entrace/internal/file/osfile"
)

// Replace gives j the name of old in one step, and removes old. Before that, j was made with
// Place.Replace and nothing was appended to it, the shards of old were closed, and a checkpoint
// of j says that the records of old are in the trace. When Replace fails, old is unchanged. On
// Windows, where an open file cannot be replaced, Replace removes old first.
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
	_ = old.Remove() // removes only files that still belong to old
	return nil
}
