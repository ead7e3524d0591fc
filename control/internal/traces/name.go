package traces

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/tracename"
)

// A traceName holds the parts of the file name of a trace:
//
//	20261120T212712.021345Z-HOST-PID-SEQ-CONFIG.et
//
// The time is UTC and has a fixed width, so that names sort by time. SEQ counts the traces of a process,
// with at least four digits. An "m" after SEQ means that the trace was requested manually. Only CONFIG may
// contain a "-".
type traceName struct {
	time   time.Time
	host   string // the result of fileHost
	pid    uint32
	seq    uint64 // from 1
	manual bool
	config string // the name of the trace in the configuration, or "crash"
}

const (
	fileTime    = "20060102T150405.000000Z"
	maxFileHost = 32
	maxFileName = 200 // the limit in package format
)

// String returns the file name.
func (n traceName) String() string {
	manual := ""
	if n.manual {
		manual = "m"
	}
	return fmt.Sprintf("%s-%s-%d-%04d%s-%s%s", n.time.Format(fileTime), n.host, n.pid, n.seq, manual, n.config, tracename.ET)
}

// isName reports whether s is the file name of a finished trace.
func isName(s string) bool {
	_, ok := parseFileName(s)
	return ok
}

// CheckName returns an error if a configuration must not have a trace with this name.
func CheckName(name string) error {
	switch {
	case name == crashName:
		return errors.New("the name \"crash\" is reserved for the traces of processes that died")
	case !validName(name):
		return fmt.Errorf("%q must be 1 to 64 letters, digits, '-', '_' and '.', and begin with a letter or digit", name)
	}
	return nil
}

const alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

func validName(s string) bool {
	return s != "" && len(s) <= 64 && strings.IndexByte(alphanumeric, s[0]) >= 0 && strings.Trim(s, alphanumeric+"-_.") == ""
}

var fileName = regexp.MustCompile(`^(\d{8}T\d{6}\.\d{6}Z)-([A-Za-z0-9._]{1,32})-(\d+)-(\d+)(m?)-(.+)\.et$`)

// parseFileName is the inverse of String. It accepts only names that String can return.
func parseFileName(s string) (traceName, bool) {
	m := fileName.FindStringSubmatch(s)
	if m == nil || len(s) > maxFileName || !validName(m[6]) {
		return traceName{}, false
	}
	at, terr := time.Parse(fileTime, m[1])
	pid, perr := strconv.ParseUint(m[3], 10, 32)
	seq, serr := strconv.ParseUint(m[4], 10, 64)
	if terr != nil || perr != nil || serr != nil || seq == 0 {
		return traceName{}, false
	}
	n := traceName{time: at, host: m[2], pid: uint32(pid), seq: seq, manual: m[5] != "", config: m[6]}
	return n, n.String() == s
}

// fileHost returns the host name s with the characters that file names may have.
func fileHost(s string) string {
	b := []byte(s[:min(len(s), maxFileHost)])
	for i, c := range b {
		if strings.IndexByte(alphanumeric+".", c) < 0 {
			b[i] = '_'
		}
	}
	if len(b) == 0 {
		return "_"
	}
	return string(b)
}

// fileNames is the state of NewName, for all folders of this process.
var fileNames struct {
	mu sync.Mutex

	last time.Time // the time in the last name; zero if no name was made
	seq  uint64
}

// Host returns the name of this host with the characters that file names may have.
func Host() string { return host() }

var host = sync.OnceValue(func() string {
	host, _ := os.Hostname() // on an error, the process id must suffice
	return fileHost(host)
})

// maxFileTime is the last time with a year of four digits.
var maxFileTime = time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)

// NewName returns a file name for a trace that began at the given time. The parameter config is the name of the trace
// in the configuration. The names of one process ascend, even if its clock goes back: the time in a name is always
// after the time in the previous name. No trace in the folder has the returned name. NewName is safe for concurrent
// use.
func (f *Folder) NewName(at time.Time, config string, manual bool) string {
	at = at.UTC().Truncate(time.Microsecond)
	if at.Year() < 0 {
		at = time.Time{}
	}
	fileNames.mu.Lock()
	defer fileNames.mu.Unlock()
	for {
		// Try again if the name is taken. An earlier process may have had the same host name and pid: the
		// first process of a container always has the same pid.
		if !fileNames.last.IsZero() && !at.After(fileNames.last) {
			at = fileNames.last.Add(time.Microsecond)
		}
		if at.After(maxFileTime) {
			at = maxFileTime
		}
		fileNames.last = at
		fileNames.seq++
		n := traceName{time: at, host: Host(), pid: uint32(max(os.Getpid(), 0)), seq: fileNames.seq, manual: manual, config: config}
		if s := n.String(); !f.taken(s) {
			return s
		}
	}
}

// taken reports whether the trace called name already has a file, finished or not.
func (f *Folder) taken(name string) bool {
	base := strings.TrimSuffix(name, tracename.ET)
	exts := []string{tracename.ET, tracename.IET, tracename.IET + tracename.Journal}
	return slices.ContainsFunc(exts, func(ext string) bool { return osfile.Exists(f.path(base + ext)) })
}
