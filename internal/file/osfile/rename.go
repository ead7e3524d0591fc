package osfile

import (
	"errors"
	"io/fs"
	"os"
)

// renameLink is RenameNew with a hard link, which never replaces a file. Without hard links
// it first checks that the file does not exist. Between the check and the rename another
// process may make the file.
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
