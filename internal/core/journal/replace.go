package journal

import (
	"errors"
	"runtime"

	"github.com/entrace-go/entrace/internal/file/osfile"
)

// Replace gives j the name of old in one step, and then removes old. The caller must have made j with
// Place.Replace, and must not have appended to it. It must have closed the shards of old, and have written a
// checkpoint to j which says that the records of old are in the trace. If Replace fails, old is unchanged. Windows
// cannot replace an open file, so there Replace removes old first.
func (j *Journal) Replace(old *Journal) error {
	if runtime.GOOS == "windows" {
		_ = old.Remove() // its records are already in the trace
	}
	if j.o.Beside != "" {
		replaces := old.isNamed()
		_ = old.pool.noteLost(unneeded) // so that sweep need not keep old for a day if the process dies now
		if err := j.pointTo(osfile.RenameOver); err != nil {
			return errors.Join(err, old.pool.noteLost(0))
		}
		if replaces {
			old.pointer.Store(nil) // no file names old any more
		}
	} else {
		if err := osfile.RenameOver(j.pool.name, j.replaces); err != nil {
			return err
		}
		j.pool.name = j.replaces
	}
	_ = old.Remove() // removes only files that belong to old
	return nil
}
