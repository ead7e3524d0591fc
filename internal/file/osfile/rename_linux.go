package osfile

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// RenameNew renames a file. If the new name is in use, it fails with fs.ErrExist.
func RenameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS): // the system does not support RENAME_NOREPLACE
		return renameLink(from, to)
	}
	return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
}
