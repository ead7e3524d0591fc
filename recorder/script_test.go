package recorder_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/write/inside"
	"github.com/entrace-go/entrace/recorder"
)

// TestFaults runs the scripts in testdata/faults, one file for each subject. testdata/faults/README.md explains their
// words.
func TestFaults(t *testing.T) {
	names, err := filepath.Glob("testdata/faults/*.txt")
	must(t, err)
	for _, name := range names {
		subject := strings.TrimSuffix(filepath.Base(name), ".txt")
		if runtime.GOOS == "windows" && subject != "disk" {
			continue // Windows does not remove, rename or change a file that is open
		}
		for paragraph := range strings.SplitSeq(strings.TrimSpace(string(readFile(t, name))), "\n\n") {
			lines := slices.DeleteFunc(strings.Split(paragraph, "\n"), func(line string) bool { return line[0] == '#' })
			each(t, subject+"/"+lines[0], lines[1:])
		}
	}
}

// each runs a script once for each value of each of its variables.
func each(t *testing.T, name string, lines []string) {
	variable, is := strings.CutPrefix(lines[0], "each ")
	if !is {
		t.Run(name, func(t *testing.T) {
			top := hosttest.TraceDir(t)
			if !strings.HasPrefix(name, "removed/") { // the journal treats a removed folder in memory in another way
				top = hosttest.MemoryDir(t)
			}
			synctest.Test(t, func(t *testing.T) { runScript(t, top, lines) })
		})
		return
	}
	variable, values, _ := strings.Cut(variable, ": ")
	list := strings.Split(values, " | ")
	if from, to, is := strings.Cut(values, ".."); is {
		list = nil
		for n := number(t, from); n <= number(t, to); n++ {
			list = append(list, strconv.Itoa(n))
		}
	}
	for _, value := range list {
		rest := strings.ReplaceAll(strings.Join(lines[1:], "\n"), "$"+variable, value)
		each(t, name+" "+value, strings.Split(rest, "\n"))
	}
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	must(t, err)
	return n
}

// A script is the state of a running script.
type script struct {
	*testing.T

	top      string // the folder of all files
	rec      *recorder.Recorder
	disk     *recorder.FaultyStream
	resource *recorder.Resource
	resume   func() // ends a write that does not return
	version  format.Version
	limit    time.Duration // a call may not take longer; 0: no limit
	whole    bool          // after each command, the file must end at the end of an entry

	acknowledged, refused []string // names of records
	lost                  int      // number of acknowledged records that another program has cut from the file
	sizes                 []int64  // of the file after each command "write"

	mu sync.Mutex

	told []error
}

func runScript(t *testing.T, top string, lines []string) { newScript(t, top, 0).run(lines) }

func newScript(t *testing.T, top string, version format.Version) *script {
	t.Helper()
	return &script{T: t, top: top, version: version, resume: func() {}}
}

// run runs the lines of a script, and closes the recorder.
func (s *script) run(lines []string) {
	defer func() {
		s.resume()
		if s.rec != nil {
			_ = s.rec.Close(context.Background()) // may return an error that the script has caused
		}
	}()
	for _, line := range lines {
		for command := range strings.SplitSeq(line, "; ") {
			s.command(command)
			if s.Failed() {
				s.Fatalf("in the line %s", line)
			}
		}
	}
}

// command runs one command, and compares the errors of its calls with the text after "->" in the script.
func (s *script) command(line string) {
	line, want, _ := strings.Cut(line, " -> ")
	words := strings.Fields(line)
	args, options := words[1:], make(map[string]string)
	for i, word := range args {
		if key, value, is := strings.Cut(word, "="); is && words[0] != "want" {
			options[key] = value
			args = slices.Clone(args)
			args[i] = ""
		}
	}
	args = slices.DeleteFunc(args, func(word string) bool { return word == "" })
	check := func(fn func() error) error {
		begin := time.Now()
		err := fn()
		if took := time.Since(begin); s.limit > 0 && took > s.limit {
			s.Errorf("%s took %v", line, took)
		}
		if !matches(err, want) {
			s.Errorf("%s: %v, want %s", line, err, want)
		}
		return err
	}
	switch words[0] {
	case "want":
		s.want(args[0], args[1:])
		return
	case "limit":
		s.limit = duration(s.T, args[0])
		return
	case "always":
		s.whole = true
		return
	case "log", "write", "span", "end":
		s.record(words[0], args, options, check)
	default:
		_ = check(func() error { return s.call(words[0], args, options) })
	}
	if s.rec != nil && s.disk != nil {
		recorder.Balanced(s.T, s.rec.Stats())
	}
	if s.whole {
		synctest.Wait()
		f, err := recorder.Open(s.rec.StreamPath(), nil)
		must(s.T, err)
		defer f.Close()
		if st := s.rec.Stats(); f.Damage() != nil || f.Size() != st.Bytes || uint64(f.Len()) != st.Entries.Written {
			s.Errorf("%s: the file has %d entries in %d bytes, %v; the account is %+v", line, f.Len(), f.Size(), f.Damage(), st)
		}
	}
}

var errorWords = map[string]error{
	"ENOSPC": syscall.ENOSPC, "EDQUOT": syscall.EDQUOT, "EFBIG": syscall.EFBIG, "EIO": syscall.EIO, "EROFS": syscall.EROFS,
	"overflow": recorder.ErrOverflow, "unlinked": recorder.ErrUnlinked, "late": context.DeadlineExceeded, "missing": fs.ErrNotExist, "closed": recorder.ErrClosed,
}

// matches reports whether an error is the one that a script wants: "" none, "error" any, "maybe X" none or X, "X and Y"
// both, else a word of errorWords or a part of the text.
func matches(err error, want string) bool {
	want, maybe := strings.CutPrefix(want, "maybe ")
	if err == nil {
		return maybe || want == ""
	}
	for part := range strings.SplitSeq(want, " and ") {
		if target := errorWords[part]; target != nil && !errors.Is(err, target) || target == nil && part != "error" && !strings.Contains(err.Error(), part) {
			return false
		}
	}
	return want != ""
}

// record records log records, spans, or ends of spans.
func (s *script) record(kind string, names []string, o map[string]string, check func(func() error) error) {
	if n := o["n"]; n != "" {
		for i := range number(s.T, n) - 1 {
			names = append(names, fmt.Sprint(names[0], i+2))
		}
	}
	id := func(key string) byte {
		n, _ := strconv.Atoi(o[key])
		return byte(n)
	}
	for i, name := range names {
		e := named(name)
		below := span(name, id("id"), id("below"))
		if name == "end" {
			e = named(format.NameSpanEnd)
		}
		s.fill(e, o)
		s.fill(&below.Entry, o)
		is := strings.Split(o["is"], ",")
		below.Open, below.Wait, below.Remote = slices.Contains(is, "open"), slices.Contains(is, "waiting"), slices.Contains(is, "remote")
		if o["resource"] != "" {
			below.Resource = s.resource
		}
		for n := range id("events") {
			below.Children = append(below.Children, *named(fmt.Sprint("event", n)))
		}
		err := check(func() error {
			switch kind {
			case "span":
				return tracetest.WriteSpan(s.rec, below)
			case "end":
				return tracetest.EndSpan(s.rec, spanRef(1, id("id")), below.Children, e)
			}
			b := s.rec.Batch()
			b.Log(below.Parent, 0)
			if o["resource"] != "" {
				b.Below(s.resource)
			}
			b.Entry(e)
			return b.Write()
		})
		to := &s.acknowledged
		if err != nil {
			to = &s.refused
		}
		*to = append(*to, name)
		for n := range id("events") {
			*to = append(*to, fmt.Sprint("event", n))
		}
		if every := o["flush"]; kind == "write" || every != "" && i%number(s.T, every) == 0 {
			_ = check(func() error { return s.rec.Flush(s.Context()) })
			s.sizes = append(s.sizes, s.rec.Stats().Bytes)
		}
	}
}

// fill adds the fields and attributes in the options to an entry.
func (s *script) fill(e *format.TraceEntry, o map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(o)) {
		value := o[key]
		switch key {
		case "n", "id", "below", "is", "events", "flush", "resource":
		case "size":
			e.Add("x", format.StringValue(strings.Repeat("x", number(s.T, value))))
		case "message":
			e.Message = format.Some(value)
		case "level":
			e.Metadata.Level = format.Level(number(s.T, value))
		default:
			attribute := format.StringValue(value)
			if n, err := strconv.Atoi(value); err == nil && value[0] != '0' { // an id is a text
				attribute = format.I64Value(int64(n))
			}
			e.Add(key, attribute)
		}
	}
}

// call runs a command that makes one call, and returns its error.
func (s *script) call(command string, args []string, o map[string]string) error {
	ctx := context.Background()
	if limit := o["within"]; limit != "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, duration(s.T, limit))
		defer cancel()
	}
	switch command {
	case "create":
		return s.create(s.path(args[0]), o)
	case "resource":
		res, err := s.rec.Resource(named(format.NameResource))
		if s.resource == nil {
			s.acknowledged = append(s.acknowledged, format.NameResource)
		} else if *res != *s.resource {
			s.Errorf("the resource is another one")
		}
		s.resource = res
		return err
	case "append":
		return expect.Err(s.rec.Append(named(args[0])))
	case "flush":
		return s.rec.Flush(ctx)
	case "sync":
		return s.rec.Sync(ctx)
	case "suspend":
		return inside.Of(s.rec).Suspend(ctx)
	case "close":
		s.whole = false
		err := s.rec.Close(ctx)
		synctest.Wait()
		return err
	case "pass":
		time.Sleep(duration(s.T, args[0]))
		synctest.Wait()
	case "disk":
		s.breakDisk(args, o)
	case "remove":
		return os.RemoveAll(s.path(args[0]))
	case "mkdir":
		return os.Mkdir(s.path(args[0]), 0o700)
	case "file":
		return os.WriteFile(s.path(args[0]), nil, 0o600)
	case "link":
		tracetest.Symlink(s.T, s.path(args[1]), s.path(args[0]))
	case "rename":
		return os.Rename(s.path(args[0]), s.path(args[1]))
	case "copy":
		return os.WriteFile(s.path(args[1]), readFile(s.T, s.path(args[0])), 0o600)
	case "cut":
		size, _ := strconv.Atoi(o["by"])
		if after := o["after"]; after != "" {
			size += int(s.sizes[number(s.T, after)-1])
		}
		return os.Truncate(s.rec.StreamPath(), int64(size))
	case "spoil":
		f, err := os.OpenFile(s.rec.StreamPath(), os.O_WRONLY|os.O_APPEND, 0)
		must(s.T, err)
		_, err = f.WriteString("garbage")
		return errors.Join(err, f.Close())
	case "lose":
		s.lost = number(s.T, args[0])
		s.acknowledged = s.acknowledged[:len(s.acknowledged)-s.lost]
	case "kill":
		killed := filepath.Join(s.TempDir(), "killed")
		must(s.T, os.CopyFS(killed, os.DirFS(s.top)))
		err := s.rec.Close(ctx)
		s.top, s.rec = killed, nil
		return err
	case "recover":
		return expect.Err(recorder.Recover(s.path(args[0]), ""))
	case "recoverfolder":
		return recorder.RecoverFolder(ctx, s.path(args[0]), func(r *recorder.Report, err error) {
			must(s.T, err)
			must(s.T, r.Journal)
		})
	default:
		s.Fatalf("unknown command %s", command)
	}
	return nil
}

func (s *script) path(name string) string { return filepath.Join(s.top, name) }

func duration(t *testing.T, s string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(s)
	must(t, err)
	return d
}

// create makes a recorder. The options are fields of recorder.Options.
func (s *script) create(path string, options map[string]string) (err error) {
	o := &recorder.Options{OnError: func(err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.told = append(s.told, err)
	}}
	for name, value := range options {
		switch field := reflect.ValueOf(o).Elem().FieldByName(name).Addr().Interface().(type) {
		case *recorder.Durability:
			*field, err = recorder.ParseDurability(value)
			must(s.T, err)
		case *string:
			*field = s.path(value)
		case *time.Duration:
			*field = duration(s.T, value)
		case *uint32:
			*field = uint32(number(s.T, value))
		case *int:
			*field = number(s.T, value)
		case *format.Optional[format.StorageFormat]:
			*field = format.Some(map[string]format.StorageFormat{"et": format.ET, "iet": format.IET}[value])
		default:
			s.Fatalf("the option %s has a type that scripts cannot set", name)
		}
	}
	o.Version = s.version
	s.rec, err = recorder.Create(path, o)
	if err == nil {
		s.disk = recorder.FailDisk(s.rec)
	}
	return err
}

// breakDisk makes calls of the growing file fail, or succeed again.
func (s *script) breakDisk(args []string, o map[string]string) {
	if len(args) > 0 && args[0] == "works" {
		s.resume()
		s.disk.Mend()
		return
	}
	s.disk = recorder.FailDisk(s.rec) // the file of now
	if len(args) > 0 {                // hangs
		release := make(chan struct{})
		s.resume = sync.OnceFunc(func() { close(release) })
		s.disk.Fail(func(_ int, b []byte) (int, error) { <-release; return len(b), nil }, nil, nil)
		return
	}
	var write func(call int, b []byte) (int, error)
	if err := errorWords[o["write"]]; err != nil {
		from, times, short := 1, 1<<30, 0
		for key, n := range map[string]*int{"from": &from, "times": &times, "after": &short} {
			if value := o[key]; value != "" {
				*n = number(s.T, value)
			}
		}
		write = func(call int, b []byte) (int, error) {
			switch {
			case call < from || call >= from+times:
				return len(b), nil
			case call == from:
				return min(short, len(b)), err
			}
			return 0, err
		}
	}
	s.disk.Fail(write, errorWords[o["truncate"]], errorWords[o["sync"]])
}

// want compares the state of the recorder and its files with the script.
func (s *script) want(what string, args []string) {
	text := strings.Join(args, " ")
	switch what {
	case "told":
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if args[0] == "some" && len(s.told) == 0 || args[0] != "some" && len(s.told) != number(s.T, args[0]) || slices.ContainsFunc(s.told, func(err error) bool { return len(args) > 1 && !matches(err, strings.Join(args[1:], " ")) }) {
			s.Errorf("OnError was told %v, want %s", s.told, text)
		}
		s.told = nil
	case "err":
		if err := s.rec.Err(); !matches(err, strings.TrimPrefix(text, "none")) {
			s.Errorf("Err is %v, want %s", err, text)
		}
	case "durability":
		d, err := s.rec.Durability()
		if d.String() != args[0] || !matches(err, strings.Join(args[1:], " ")) {
			s.Errorf("Durability is %v, %v, want %s", d, err, text)
		}
	case "tree":
		expect.Equal(s.T, tracetest.Outline(s.T, tracetest.Open(s.T, s.path(args[0]))), strings.Join(args[1:], " "), "the tree")
	case "locked":
		if lock, err := osfile.LockHolder(s.path(args[0])); lock != osfile.LockHeld {
			s.Errorf("the lock of %s is %v, %v", args[0], lock, err)
		}
	case "folder":
		expect.Slice(s.T, dirNames(s.T, s.path(args[0])), args[1:], "the folder has")
	case "entries":
		expect.Slice(s.T, entryNames(s.T, s.path(args[0])), args[1:], "the file has")
	case "records":
		s.wantRecords(args)
	default:
		got, want := s.count(what), s.count(args[1])
		if good := map[string]bool{"=": got == want, ">": got > want, "<": got < want}; !good[args[0]] {
			s.Errorf("%s is %d, want %s; %+v", what, got, text, s.rec.Stats())
		}
	}
}

// wantRecords compares the names of the records in all files of the folder, in any order. It also accepts
// "acknowledged", the records whose calls have succeeded, perhaps with others, and "tried", all records.
func (s *script) wantRecords(want []string) {
	var got []string
	must(s.T, filepath.WalkDir(s.top, func(name string, d fs.DirEntry, err error) error {
		if ext := filepath.Ext(name); d.Type().IsRegular() && (ext == ".et" || ext == ".iet") && d.Name()[0] != '.' {
			must(s.T, tracetest.Open(s.T, name).Walk(1, func(_ uint32, e *format.TraceEntry) error {
				if _, copied := e.Attribute(mapping.AttrContinued); !copied && !strings.HasPrefix(e.Metadata.Name, "entrace.") {
					got = append(got, strings.Clone(e.Metadata.Name))
				}
				return nil
			}))
		}
		return err
	}))
	switch want[0] {
	case "acknowledged":
		want = s.acknowledged
		got = slices.DeleteFunc(got, func(name string) bool { return slices.Contains(s.refused, name) })
	case "tried":
		want = slices.Concat(s.acknowledged, s.refused)
	}
	want = slices.DeleteFunc(slices.Clone(want), func(name string) bool { return name == "none" })
	slices.Sort(got)
	slices.Sort(want)
	expect.Slice(s.T, got, want, "the files have")
}

// count returns a number, or the count of that name.
func (s *script) count(what string) int {
	synctest.Wait()
	st := s.rec.Stats()
	counts := map[string]uint64{
		"refused": uint64(len(s.refused)), "lost": uint64(s.lost), "files": uint64(st.Files), "writes": uint64(s.disk.Writes()),
		"offered": st.Entries.Offered, "written": st.Entries.Written, "waiting": st.Entries.Waiting, "dropped": st.Entries.Dropped.Total(),
		"spans.offered": st.Spans.Offered, "spans.written": st.Spans.Written, "spans.waiting": st.Spans.Waiting, "spans.dropped": st.Spans.Dropped.Total(),
	}
	st.Entries.Dropped.Each(func(reason string, n uint64) { counts["dropped."+reason] = n })
	n, is := counts[what]
	if !is {
		return number(s.T, what)
	}
	return int(n)
}

// entryNames returns the names of the entries that the application has recorded in a file.
func entryNames(t *testing.T, name string) (names []string) {
	t.Helper()
	f := tracetest.Open(t, name)
	for id := uint32(1); int(id) < f.Len(); id++ {
		e, err := f.Entry(id)
		must(t, err)
		if !strings.HasPrefix(e.Metadata.Name, "entrace.") {
			names = append(names, e.Metadata.Name)
		}
	}
	return names
}
