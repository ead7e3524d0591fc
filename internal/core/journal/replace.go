package journal

import (
	"errors"
	"runtime"

	"github.com/entrace-go/entrace/internal/file/osfile"
)

// Replace gives j the name of old in one step, and removes old. The caller must have made j with
// Place.Replace and appended nothing to j, must have closed the shards of old, and must have written
// a checkpoint to j which says that the records of old are in the trace. If Replace fails, old is
// unchanged. On Windows an open file cannot be replaced, so Replace removes old first.
func (j *Journal) Replace(old *Journal) error {
	if runtime.GOOS == "windows" {
		_ = old.Remove() // its records are in the trace
	}
	if j.o.Beside != "" {
		_ = old.pool.noteLost(unneeded) // without this call, old would stay for a day if the process died now
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
