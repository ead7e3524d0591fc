package deadtrace

import (
	"errors"
	"fmt"
	"os"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/file/osfile"
)

func isUnreachable(err error) bool {
	return errors.Is(err, journal.ErrGone) || errors.Is(err, journal.ErrElsewhere)
}

func lock(f *os.File) error { return lockError(f, osfile.LockPatiently(f, true)) }

func lockError(f *os.File, err error) error {
	if errors.Is(err, osfile.ErrLocked) {
		if _, pid := osfile.LockHolder(f.Name()); pid > 0 {
			return fmt.Errorf("%s: %w (pid %d)", f.Name(), format.ErrLocked, pid)
		}
		return fmt.Errorf("%s: %w", f.Name(), format.ErrLocked)
	}
	if errors.Is(err, osfile.ErrNoLocks) {
		return fmt.Errorf("%s: perhaps %w: %w", f.Name(), format.ErrLocked, err)
	}
	return err
}
