package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
)

// stdinName is the printed name of the standard input.
const stdinName = "standard input"

// content opens the bytes of the trace called name, or of the standard input for "-". It reports on stderr which entries
// come from a crash buffer and which are missing.
func content(c *console, name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(c.in), nil
	}
	src, err := deadtrace.OpenSource(format.Find(name))
	if err != nil {
		return nil, known(name, err)
	}
	n := 0
	if src.Size() > src.Stored {
		n = -1
	}
	tellJournal(c, src.Name, n, src.Missing)
	return struct {
		io.Reader
		io.Closer
	}{src.Reader(), src}, nil
}

// tellJournal prints notes about the journal of the file called name on stderr. The first says that n entries come from
// the journal; if n is -1, their number is not known. If missing is not nil, the second says why entries are
// missing.
func tellJournal(c *console, name string, n int, missing error) {
	if n != 0 {
		what := "the last entries are"
		if n > 0 {
			what = count(n, "entry is", "entries are")
		}
		c.say("%s: %s from the crash buffer; 'entrace recover' adds them to the file", name, what)
	}
	switch {
	case missing == nil:
	case errors.Is(missing, format.ErrLocked):
		by := ""
		if _, pid := osfile.LockHolder(format.Find(name)); pid > 0 {
			by = fmt.Sprintf(" (pid %d)", pid)
		}
		c.say("%s: a process%s is still writing the file: run the command again for newer entries", name, by)
	case errors.Is(missing, fs.ErrPermission):
		c.say("%s: the last entries are missing, because the crash buffer belongs to another user: %s", name, missing)
	default:
		c.say("%s: the last entries are missing: %s", name, missing)
	}
}

// torn filters err, the error after the last entry of a file. It returns nil if the file ends within an entry and
// its writer is alive, because the writer still completes that entry. Otherwise it returns err.
func torn(name string, err error) error {
	if errors.Is(err, format.ErrTruncated) && name != "-" && osfile.Locked(format.Find(name)) {
		return nil
	}
	return err
}

// maxCopied is the maximum size of a temporary file.
const maxCopied = 8 << 30

// seekable returns the path of a file with the content of name, for random access. For "-" and for a compressed file,
// it copies the content to a temporary file, which done removes. The error cut is the reason why a compressed file
// could not be read to its end.
func seekable(c *console, name string) (path string, done func(), cut, err error) {
	in := c.in
	if name != "-" {
		f, err := osfile.OpenRead(format.Find(name))
		if err != nil {
			return name, func() {}, nil, nil //nolint:nilerr // whoever opens the path is told
		}
		defer f.Close()
		in = f
	}
	plain, compressed, err := convert.Plain(in)
	if name != "-" && !compressed {
		return name, func() {}, nil, nil
	}
	if err != nil {
		return "", nil, nil, err
	}
	f, err := os.CreateTemp("", "entrace-*")
	if err != nil {
		return "", nil, nil, err
	}
	n, err := io.Copy(f, io.LimitReader(plain, maxCopied))
	if n == maxCopied && err == nil {
		err = fmt.Errorf("the content is larger than %d GiB: the rest is not read", maxCopied>>30)
	}
	if compressed {
		cut, err = err, nil
	}
	err = errors.Join(err, f.Close())
	if err != nil {
		return "", nil, nil, errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), func() { _ = os.Remove(f.Name()) }, cut, nil
}
