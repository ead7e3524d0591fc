package journal

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/entrace-go/entrace/internal/osfile"
)

// A journal lies in memory of the machine where it can, as that is faster, and no disk
// that stands still can stop the program. A small text file then lies where the journal
// would, and says where it is:
//
//	entrace journal
//	path /dev/shm/entrace-1000/2K4ZQ….buffer
//	boot 7d0b9e36-…
//	host build-7
//	uid 1000

// A Place says where a journal is to lie.
type Place struct {
	// Beside is where its file is looked for, which must not exist.
	Beside string
	// Dir, if not empty, is the folder that it is to be in. By default it is one in shared
	// memory if that survives the process, else that of Beside.
	Dir string
}

// sharedMemory is osfile.SharedMemory, but in tests.
var sharedMemory = osfile.SharedMemory

// Create makes a journal at a place. Medium and Name of the options are not used.
func Create(at Place, o Options) (*Journal, error) {
	dir, size := filepath.Dir(at.Beside), int64(headerSize)+int64(min(growBy, o.Segments+o.Extra))*SegmentSize
	elsewhere := at.Dir
	if elsewhere != "" && sameDir(elsewhere, dir) {
		o.Medium, o.Name = MediumOf(dir), at.Beside
		return New(o)
	}
	if elsewhere == "" && !osfile.OnTmpfs(dir) {
		elsewhere = inMemory(size)
	}
	if elsewhere != "" {
		j, err := createElsewhere(elsewhere, at.Beside, o)
		if err == nil || at.Dir != "" {
			return j, err
		}
	}
	o.Medium, o.Name = MediumOf(dir), at.Beside
	return New(o)
}

func sameDir(a, b string) bool {
	x, xerr := os.Stat(a)
	y, yerr := os.Stat(b)
	return xerr == nil && yerr == nil && os.SameFile(x, y)
}

// inMemory returns a folder in shared memory that has room for a journal and that the
// process does not take with it when it dies, "" if there is none.
func inMemory(size int64) string {
	root := sharedMemory()
	if root == "" || !osfile.InFirstPIDNamespace() || !osfile.OnTmpfs(root) || !hasRoom(root, size) {
		return ""
	}
	dir := filepath.Join(root, "entrace-"+strconv.Itoa(os.Geteuid()))
	if !osfile.OwnFolder(dir) {
		return "" // somebody else has made it
	}
	return dir
}

// hasRoom reports whether a journal of so many bytes takes no more than half of what is
// free, and an eighth of the memory that the process may use.
func hasRoom(dir string, size int64) bool {
	limit := osfile.MemoryLimit()
	return osfile.FreeBytes(dir) >= 2*size && (limit == 0 || limit >= 8*size)
}

// createElsewhere makes a journal in a folder, and the file beside that says so.
func createElsewhere(dir, beside string, o Options) (*Journal, error) {
	name := filepath.Join(dir, rand.Text()+".buffer")
	f, err := osfile.CreateNew(beside)
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	_, err = fmt.Fprintf(f, "%s\npath %s\nboot %s\nhost %s\nuid %d\n", pointerHead, name, osfile.BootID(), host, os.Geteuid())
	if err = errors.Join(err, f.Close()); err == nil {
		o.Medium, o.Name = MediumOf(dir), name
		var j *Journal
		if j, err = New(o); err == nil {
			j.beside = beside
			return j, nil
		}
	}
	return nil, errors.Join(err, os.Remove(beside))
}

const (
	pointerHead = "entrace journal"
	maxPointer  = 16 << 10
)

// ErrGone is why the journal of a dead process is lost: its machine was started anew, or
// somebody has removed it.
var ErrGone = errors.New("the journal is gone, and what was in it")

// ErrElsewhere is returned for the journal of another machine, which only that can read.
var ErrElsewhere = errors.New("the journal is in the memory of another machine")

// A DeadFile is the file of a journal whose process may be dead.
type DeadFile struct {
	*os.File // the journal

	name    string
	beside  string
	pointer *os.File // nil: the journal itself is there
}

// OpenDead opens the journal that lies at a place, or that the file there names, for
// reading or for writing. The errors are fs.ErrNotExist if there is nothing, ErrGone if
// there is a file that names a journal which is not there any more, and ErrElsewhere.
func OpenDead(beside string, write bool) (*DeadFile, error) {
	open := osfile.OpenRead
	if write {
		open = osfile.OpenWrite
	}
	f, err := open(beside)
	if err != nil {
		return nil, err
	}
	d := &DeadFile{File: f, name: beside, beside: beside}
	head := make([]byte, len(pointerHead))
	if n, _ := f.ReadAt(head, 0); string(head[:n]) != pointerHead {
		return d, nil
	}
	d.pointer = f
	if d.File, d.name, err = follow(f, open); err != nil {
		return nil, errors.Join(err, closeFile(f))
	}
	return d, nil
}

// follow opens the journal that the file f names.
func follow(f *os.File, open func(string) (*os.File, error)) (*os.File, string, error) {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, maxPointer))
	if err != nil {
		return nil, "", err
	}
	said := make(map[string]string)
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		said[key] = value
	}
	name := said["path"]
	host, _ := os.Hostname()
	switch {
	case !filepath.IsAbs(name):
		return nil, "", ErrGone // its process died before it was whole
	case said["host"] != host:
		return nil, "", fmt.Errorf("%w: %s", ErrElsewhere, said["host"])
	case said["boot"] != osfile.BootID() && osfile.OnTmpfs(filepath.Dir(name)):
		return nil, "", ErrGone
	}
	j, err := open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", ErrGone
	}
	if err != nil {
		return nil, "", err
	}
	if !osfile.IsOwn(j, f) {
		return nil, "", errors.Join(fmt.Errorf("%s belongs to somebody else", name), closeFile(j))
	}
	return j, name, nil
}

// Name returns the name of the journal.
func (d *DeadFile) Name() string { return d.name }

// HasName reports whether what OpenDead has found is still there.
func (d *DeadFile) HasName() bool {
	return osfile.SameFile(d.File, d.name) && (d.pointer == nil || osfile.SameFile(d.pointer, d.beside))
}

// Rename gives what lies beside another name, which must not be taken.
func (d *DeadFile) Rename(to string) error {
	f := d.pointer
	if f == nil {
		f = d.File
		d.name = to
	}
	err := osfile.RenameOpen(f, d.beside, to)
	d.beside = to
	return err
}

// Remove removes the journal and the file that names it, and closes both.
func (d *DeadFile) Remove() error {
	err := errors.Join(osfile.Remove(d.File, d.name), osfile.SyncDir(d.name))
	if d.pointer != nil {
		err = errors.Join(err, osfile.Remove(d.pointer, d.beside), osfile.SyncDir(d.beside))
	}
	return errors.Join(err, d.Close())
}

// Close closes the files.
func (d *DeadFile) Close() error {
	err := closeFile(d.File)
	if d.pointer != nil {
		err = errors.Join(err, closeFile(d.pointer))
	}
	return err
}

// RemoveGone removes a file that names a journal which is gone, and reports whether it was
// one.
func RemoveGone(beside string) (bool, error) {
	d, err := OpenDead(beside, true)
	if err == nil {
		return false, d.Close()
	}
	if !errors.Is(err, ErrGone) {
		return false, nil
	}
	return true, errors.Join(os.Remove(beside), osfile.SyncDir(beside))
}
