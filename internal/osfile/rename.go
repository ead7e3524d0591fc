package osfile

import (
	"errors"
	"io/fs"
	"os"
)

// renameLink is RenameNew by a hard link, which never replaces. Where there are
// no hard links it looks first, which leaves a moment for another process.
func renameLink(from, to string) error {
	err := os.Link(from, to)
	switch {
	case err == nil:
		return os.Remove(from)
	case errors.Is(err, fs.ErrExist):
		return err
	}
	if _, serr := os.Lstat(to); serr == nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: fs.ErrExist}
	} else if !errors.Is(serr, fs.ErrNotExist) {
		return serr // something may have that name
	}
	return os.Rename(from, to)
}
