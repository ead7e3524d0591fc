package osfile

import (
	"errors"
	"io/fs"
	"os"
)

// renameLink is like RenameNew. It uses a hard link, because making a link never replaces a file. If
// the file system has no hard links, renameLink first checks that the new name is free. Another
// process may make a file of that name between the check and the rename.
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
		return serr // the name may be in use
	}
	return os.Rename(from, to)
}
