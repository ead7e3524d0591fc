package osfile

import (
	"errors"
	"io/fs"
	"os"
)

// renameLink is like RenameNew. It makes a hard link, which never replaces a file. If the file system has no hard
// links, renameLink checks that the new name is free, and renames. Another process may use the name in between.
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
		return serr // unknown whether the name is in use
	}
	return os.Rename(from, to)
}
