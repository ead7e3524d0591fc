package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/osfile"
)

// known explains two errors. To [convert.ErrNoTrace], it adds the name of another folder that has a trace. For
// [format.ErrNotEntrace], it returns an error that names the kind of the file, if it recognizes the kind. It
// returns other errors unchanged.
func known(name string, err error) error {
	if errors.Is(err, convert.ErrNoTrace) {
		return fmt.Errorf("%w%s", err, otherFolder(name))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w%s", err, nearTraces(name))
	}
	if !errors.Is(err, format.ErrNotEntrace) {
		return err
	}
	if _, ring := knownRing(name); ring != nil {
		return ring
	}
	switch kind, _, unknown, ferr := convert.FormatOf(name); {
	case ferr != nil:
	case unknown != "":
		return fmt.Errorf("%s %s", name, unknown)
	case kind != "":
		return fmt.Errorf("%s looks like %s: convert it to a trace with 'entrace convert %s x.et'", name, kind, name)
	}
	return err
}

// knownRing returns an error that tells the user how to read a ring or a crash buffer. The result
// died reports whether the file is the ring of a process that died. For other files, err is nil.
func knownRing(name string) (died bool, err error) {
	f, err := osfile.OpenRead(name)
	if err != nil {
		return false, nil //nolint:nilerr // another error already says that it cannot be opened
	}
	defer f.Close()
	head := make([]byte, 4<<10)
	n, _ := io.ReadFull(f, head) // the file may be shorter
	head = head[:n]
	journal := name
	if rest, ok := bytes.CutPrefix(head, []byte("entrace journal\npath ")); ok { // in shared memory
		path, _, _ := bytes.Cut(rest, []byte("\n"))
		journal, head = string(path), []byte("ENTRACEB")
	}
	if !bytes.HasPrefix(head, []byte("ENTRACEB")) {
		return false, nil
	}
	state, pid := osfile.LockHolder(journal)
	switch {
	case state == osfile.LockHeld && pid > 0:
		return false, fmt.Errorf("%s is the ring of process %d, which is running: 'kill -USR1 %d' makes the process write a trace", name, pid, pid)
	case state == osfile.LockHeld && runtime.GOOS == "windows":
		return false, fmt.Errorf("%s is the ring of a running process, which writes a trace when a trigger fires", name)
	case state == osfile.LockHeld:
		return false, fmt.Errorf("%s is the ring of a running process: SIGUSR1 makes the process write a trace", name)
	case strings.HasSuffix(name, ".buffer"):
		return false, fmt.Errorf("%s is the crash buffer of %s: name that file instead", name, strings.TrimSuffix(name, ".buffer"))
	}
	return true, fmt.Errorf("%s is the ring of a process that died: 'entrace recover %s' makes a trace from it", name, filepath.Dir(name))
}
