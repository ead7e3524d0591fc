package journal

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/entrace-go/entrace/internal/file/osfile"
)

// A journal is in shared memory if possible. This is faster, and a disk that hangs cannot stop the program. A small
// text file in the folder of the trace then says where the journal is:
//
//	entrace journal
//	path /dev/shm/entrace-1000/2K4ZQ….buffer
//	device 26
//	boot 7d0b9e36-…
//	host build-7
//	uid 1000
//	missed 1795406400 // when a process that cannot reach the journal first looked for it

// A Place says where Create makes a journal.
type Place struct {
	// Beside is the path at which readers search for the journal. No file may exist there.
	Beside string
	// Dir, if not empty, is the folder for the journal. Otherwise the journal is in shared memory, if that survives
	// the process, or else in the folder of Beside.
	Dir string
	// Replace says that another journal is still at Beside. The new journal gets that name only when its method
	// Replace is called.
	Replace bool
}

// sharedMemory is osfile.SharedMemory. Tests replace it.
var sharedMemory = osfile.SharedMemory

// Create makes a journal at the given Place. It ignores o.Medium and o.Name.
func Create(at Place, o Options) (*Journal, error) {
	dir, elsewhere := filepath.Dir(at.Beside), at.Dir
	if elsewhere != "" && sameDir(elsewhere, dir) {
		return createBeside(at, o)
	}
	fitting := o
	if elsewhere == "" && !osfile.OnTmpfs(dir) {
		elsewhere = inMemory(&fitting)
	}
	if elsewhere != "" {
		sweep(elsewhere)
		j, err := createElsewhere(elsewhere, at, fitting)
		if err == nil || at.Dir != "" {
			return j, err
		}
	}
	return createBeside(at, o)
}

// createBeside makes a journal whose file is itself at the path Beside.
func createBeside(at Place, o Options) (*Journal, error) {
	o.Medium, o.Name = MediumOf(filepath.Dir(at.Beside)), at.Beside
	if !at.Replace {
		return New(o)
	}
	o.Name = osfile.TempName(at.Beside)
	j, err := New(o)
	if err == nil {
		j.replaces = at.Beside
	}
	return j, err
}

func sameDir(a, b string) bool {
	x, xerr := os.Stat(a)
	y, yerr := os.Stat(b)
	return xerr == nil && yerr == nil && os.SameFile(x, y)
}

// inMemory returns a folder for the journal in shared memory, or "" if no such folder can be used. The folder
// outlives the process and has room for the journal. To make it fit, inMemory reduces the number of segments, if o
// allows it.
func inMemory(o *Options) string {
	root := sharedMemory()
	if isDynamicUser(os.Geteuid()) {
		return "" // systemd deletes the files of such a user when the service ends
	}
	if root == "" || !o.fit(room(root)) {
		return ""
	}
	dir := filepath.Join(root, "entrace-"+strconv.Itoa(os.Geteuid()))
	if !osfile.OwnFolder(dir) {
		return "" // somebody else owns the folder
	}
	return dir
}

// isDynamicUser reports whether uid is in the range from which systemd takes the users of services with
// DynamicUser=.
func isDynamicUser(uid int) bool { return uid >= 61184 && uid <= 65519 }

// room returns how many bytes of shared memory a journal may use: half of the free bytes, but at most an eighth of
// the memory that the process may use.
func room(dir string) int64 {
	n := osfile.FreeBytes(dir) / 2
	if limit := memoryLimit(); limit > 0 {
		n = min(n, limit/8)
	}
	return n
}

// memoryLimit is osfile.MemoryLimit. Tests replace it.
var memoryLimit = osfile.MemoryLimit

// limit reduces the segments of a journal with Evict if they would need more than an eighth of the memory that the
// process may use. It does this for each medium, because the segments are in memory in any case.
func (o *Options) limit() {
	if limit := memoryLimit(); limit > 0 && o.Evict != nil && o.Least > 0 {
		o.Segments = max(o.Least, int(min(int64(o.Segments), limit/8/SegmentSize-int64(o.Extra))))
	}
}

// fit reports whether a journal fits into room bytes. It reduces o.Segments if necessary and allowed.
func (o *Options) fit(room int64) bool {
	n := int((room - headerSize) / SegmentSize)
	if o.Evict == nil { // such a journal begins small, and grows as long as there is room
		return n >= min(growBy, o.Segments+o.Extra)
	}
	n -= o.Extra
	if n >= o.Segments {
		return true
	}
	if o.Least == 0 || n < o.Least {
		return false
	}
	o.Segments = n
	return true
}

// createElsewhere makes a journal in the folder dir, and the file at.Beside that names the journal.
func createElsewhere(dir string, at Place, o Options) (*Journal, error) {
	o.Medium, o.Name, o.Beside = MediumOf(dir), filepath.Join(dir, rand.Text()+bufferExt), at.Beside
	j, err := New(o)
	if err != nil || at.Replace {
		return j, err
	}
	// Make this file last: a file that names a missing journal says that records were lost.
	if err := j.pointTo(osfile.RenameNew); err != nil {
		return nil, errors.Join(err, j.Remove())
	}
	return j, nil
}

// pointTo makes the file o.Beside, which names the journal. It writes a temporary file first and renames it, so
// that nobody sees an incomplete file.
func (j *Journal) pointTo(rename func(from, to string) error) error {
	fi, err := writePointer(j.pool.f, j.Name(), j.o.Beside, rename)
	if err != nil {
		return err
	}
	j.pointer.Store(&fi)
	return j.pool.noteLost(0)
}

func writePointer(journal *os.File, name, beside string, rename func(from, to string) error) (os.FileInfo, error) {
	f, err := osfile.CreateTempAppend(beside)
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	_, err = fmt.Fprintf(f, "%s\npath %s\ndevice %s\nboot %s\nhost %s\nuid %d\n",
		pointerHead, name, osfile.Device(filepath.Dir(name)), osfile.BootID(), host, os.Geteuid())
	fi, serr := f.Stat()
	if !osfile.IsOwn(journal, f) {
		// The process has just become another user. A reader would not follow the file to the journal.
		serr = errors.Join(serr, fmt.Errorf("%w: %s belongs to another user", ErrElsewhere, name))
	}
	err = errors.Join(err, serr, f.Close())
	if err == nil {
		err = rename(f.Name(), beside)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return nil, err
	}
	return fi, nil
}

const (
	bufferExt   = ".buffer"
	pointerHead = "entrace journal"
	maxPointer  = 16 << 10
)

// ErrGone is returned for the journal of a dead process that no longer exists, because the machine was restarted or
// somebody removed it.
var ErrGone = errors.New("the journal (crash buffer) is gone, with the records in it")

// ErrElsewhere is returned for a journal that this process cannot reach, for example because it is in the memory of
// another machine or container, or belongs to another user.
var ErrElsewhere = errors.New("the journal (crash buffer) is in the memory of another machine or container")

// A DeadFile is the file of a journal whose process may be dead.
type DeadFile struct {
	*os.File // the journal

	name    string
	beside  string
	pointer *os.File // the small file at beside that names the journal; nil: the journal itself is at beside
}

// OpenDead opens the journal at the path beside, or the journal that the small file at this path names. If write is
// set, it opens the files for writing. The error is fs.ErrNotExist if the path has no file, ErrGone if the named
// journal no longer exists, and ErrElsewhere if it cannot be reached.
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
	d.File, d.name, err = follow(f, open)
	if err != nil {
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
	said := parseLines(b)
	name := said["path"]
	host, _ := os.Hostname()
	switch {
	case !filepath.IsAbs(name):
		return nil, "", ErrGone // the process died before it had written all of f
	case said["boot"] == osfile.BootID() && said["boot"] != "":
		if said["device"] != deviceOf(name) {
			return nil, "", fmt.Errorf("%w: %s on %s", ErrElsewhere, name, said["host"])
		}
	case said["host"] != host:
		return nil, "", fmt.Errorf("%w: %s on %s", ErrElsewhere, name, said["host"])
	case osfile.OnTmpfs(filepath.Dir(name)):
		return nil, "", ErrGone
	}
	j, err := open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", ErrGone
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, "", fmt.Errorf("%w: %w", ErrElsewhere, err)
	}
	if err != nil {
		return nil, "", err
	}
	if !osfile.IsOwn(j, f) {
		return nil, "", errors.Join(fmt.Errorf("%w: %s belongs to another user", ErrElsewhere, name), closeFile(j))
	}
	return j, name, nil
}

// parseLines returns the values in a file that names a journal, by their keys.
func parseLines(b []byte) map[string]string {
	said := make(map[string]string)
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		said[key] = value
	}
	return said
}

// deviceOf returns the device of the folder of the file called name. If the folder does not exist, it returns the device
// of the nearest parent folder that exists.
func deviceOf(name string) string {
	for dir := filepath.Dir(name); ; dir = filepath.Dir(dir) {
		if d := osfile.Device(dir); d != "" || dir == filepath.Dir(dir) {
			return d
		}
	}
}

const (
	// keepFor is how long a journal is kept after its trace was first found missing. The disk with the trace may
	// only be unmounted.
	keepFor = 24 * time.Hour
	// keepGone is how long a journal is kept if the folder of its trace was removed. The folder counts as removed
	// if its parent exists and is on the same device as the folder was.
	keepGone = time.Hour

	maxDevice = 24
)

// isGone reports whether somebody removed the folder of the file that named the journal f.
func isGone(f io.ReaderAt) bool {
	var b [maxDevice]byte
	if _, err := f.ReadAt(b[:], deviceAt); err != nil {
		return false
	}
	device, _, _ := strings.Cut(string(b[:]), "\x00")
	dir := filepath.Dir(readBeside(f))
	_, err := os.Lstat(dir)
	return device != "" && errors.Is(err, fs.ErrNotExist) && osfile.Device(filepath.Dir(dir)) == device
}

// ownName matches the file names that createElsewhere makes. The folder may contain other files.
var ownName = regexp.MustCompile(`^[A-Z2-7]{26}\.buffer$`)

// sweep removes journals of dead processes from the folder dir in shared memory. It removes unneeded journals, and
// journals that no file has named for keepFor, or for keepGone.
func sweep(dir string) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range list {
		if ownName.MatchString(e.Name()) {
			removeLost(filepath.Join(dir, e.Name()))
		}
	}
}

// removeLost removes the journal at the path name if its process is dead and no file has named the journal for long
// enough. If the journal is found without a name for the first time, removeLost stores the time.
func removeLost(name string) {
	f, err := osfile.OpenWrite(name)
	if err != nil {
		return // it belongs to another user
	}
	defer f.Close()
	if osfile.Lock(f, true) != nil {
		return // its process is alive
	}
	fi, err := f.Stat()
	if err != nil {
		return
	}
	if fi.Size() > headerSize || readBeside(f) != "" {
		if isNamed(f, name) {
			_ = noteLost(f, 0)
			return
		}
		keep := keepFor
		if isGone(f) {
			keep = keepGone
		}
		if since := readLost(f); since == 0 || time.Since(time.Unix(since, 0)) < keep {
			if since == 0 {
				_ = noteLost(f, time.Now().Unix())
			}
			return
		}
	}
	_ = osfile.Remove(f, name)
}

// unneeded is stored instead of the time at which a journal was found to be lost. It says that nobody needs the
// journal unless a file names it: either the journal is not complete yet, or all its records are in the trace.
const unneeded = 1

// readLost returns when the journal f was found to be lost, in seconds since 1970. It returns 0 if the journal is
// not lost, or the value unneeded.
func readLost(f io.ReaderAt) int64 {
	var b [8]byte
	if _, err := f.ReadAt(b[:], lostAt); err != nil {
		return 0
	}
	return int64(binary.LittleEndian.Uint64(b[:]))
}

func noteLost(f *os.File, at int64) error {
	if readLost(f) == at {
		return nil
	}
	_, err := f.WriteAt(appendLost(at), lostAt)
	return err
}

func appendLost(at int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(at)) }

// isNamed reports whether a file names the journal f, or may name it.
func isNamed(f io.ReaderAt, name string) bool {
	beside := readBeside(f)
	if beside == "" {
		return true // unknown, because the journal does not say which file names it
	}
	d, err := OpenDead(beside, false)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrGone)
	}
	defer d.Close()
	return d.name == name
}

// Name returns the name of the journal.
func (d *DeadFile) Name() string { return d.name }

// HasName reports whether the files that OpenDead opened still have their names.
func (d *DeadFile) HasName() bool {
	return osfile.SameFile(d.File, d.name) && (d.pointer == nil || osfile.SameFile(d.pointer, d.beside))
}

// Rename renames the file at the path beside. The new name must be free.
func (d *DeadFile) Rename(to string) error {
	err := osfile.RenameNew(d.beside, to)
	if err == nil {
		d.beside = to
		if d.pointer == nil {
			d.name = to
		} else {
			_, _ = d.WriteAt(encodeBeside(to), besideAt) // only sweep uses it
		}
	}
	return err
}

// Remove removes the journal and the file that names it, and closes both.
func (d *DeadFile) Remove() error {
	var err error
	if d.pointer != nil { // first, because a file that names a missing journal says that records were lost
		_ = noteLost(d.File, unneeded) // so that sweep need not keep the journal for a day if the process dies now
		err = errors.Join(osfile.Remove(d.pointer, d.beside), osfile.SyncDir(d.beside))
	}
	return errors.Join(err, osfile.Remove(d.File, d.name), osfile.SyncDir(d.name), d.Close())
}

// Close closes the files.
func (d *DeadFile) Close() error {
	err := closeFile(d.File)
	if d.pointer != nil {
		err = errors.Join(err, closeFile(d.pointer))
	}
	return err
}

// RemoveUnreachable removes the file at the path beside if it names a journal that no longer exists or cannot be
// reached. Otherwise it changes nothing.
func RemoveUnreachable(beside string) error {
	d, err := OpenDead(beside, true)
	if err == nil {
		return d.Close()
	}
	if !errors.Is(err, ErrGone) && !errors.Is(err, ErrElsewhere) {
		return err
	}
	return errors.Join(os.Remove(beside), osfile.SyncDir(beside))
}

// NoteElsewhere records in the file at the path beside that its journal cannot be reached. The result isNews
// reports whether this is the first time. The result giveUp reports whether the first time was at least a day ago
// and in the boot in which the journal was made. A process that can reach the journal would have opened it by then.
func NoteElsewhere(beside string) (isNews, giveUp bool) {
	f, err := osfile.OpenWrite(beside)
	if err != nil {
		return true, false
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, maxPointer))
	if err != nil {
		return true, false
	}
	said := parseLines(b)
	if since, err := strconv.ParseInt(said["missed"], 10, 64); err == nil {
		return false, time.Since(time.Unix(since, 0)) >= keepFor && said["boot"] != "" && said["boot"] == osfile.BootID()
	}
	// If this fails, isNews is true again the next time.
	_, _ = fmt.Fprintf(io.NewOffsetWriter(f, int64(len(b))), "missed %d\n", time.Now().Unix())
	return true, false
}

// readBeside returns the path of the file that first named the journal f, or "" if the journal does not say it.
func readBeside(f io.ReaderAt) string {
	var b [maxBeside]byte
	if _, err := f.ReadAt(b[:], besideAt); err != nil {
		return ""
	}
	n := binary.LittleEndian.Uint32(b[:])
	if n > maxBeside-4 {
		return ""
	}
	return string(b[4:][:n])
}

func encodeBeside(name string) []byte {
	if len(name) > maxBeside-4 {
		name = ""
	}
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(name))), name...)
}
