package deadtrace_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
)

// TestStates runs the scripts of testdata/states. They make the files that programs may leave, and check
// the files after recovery.
func TestStates(t *testing.T) {
	testscript.Run(t, testscript.Params{Dir: filepath.Join("testdata", "states"), Cmds: stateCommands, RequireUniqueNames: true})
}

// stateCommands are commands for the scripts, in addition to the commands of testscript. A command after
// ! must fail, and prints its error on stderr.
//
//	case NAME                   continues in a new folder, ../NAME
//	stream FILE NAME... [+HEX]  writes an IET of version 1: a root, entries with these names, and these bytes after them
//	bytes FILE HEX [N]          writes a file: these bytes, and N zeros after them
//	append FILE HEX             appends bytes to a file
//	truncate FILE N             cuts a file to N bytes, or removes its last bytes with -N
//	flip FILE N                 changes byte N of a file, or byte N from the end with -N
//	killed FILE N M             writes the IET of a killed program with N records, and its journal with M further records
//	lock FILE                   locks a file, as a living program does
//	finalize IET ET             makes the ET
//	recover FILE [OUTPUT]       recovers a trace, and prints the report
//	recoverFolder               recovers the folder, and prints a report for each trace
//	create FILE [NAME]          records a trace with an entry of that name, and prints errors and notices of the recorder
//	left LINE...                compares the files of the folder with lines: the name, and the outline of a trace
var stateCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"case": func(ts *testscript.TestScript, _ bool, args []string) {
		dir := filepath.Join(ts.Getenv("WORK"), args[0])
		ts.Check(errors.Join(os.Mkdir(dir, 0o700), ts.Chdir(dir)))
	},
	"stream": func(ts *testscript.TestScript, _ bool, args []string) {
		b := format.AppendTraceEntry(wire.AppendMagic(nil, format.V1, format.IET), format.V1, format.Root())
		for _, arg := range args[1:] {
			if tail, ok := strings.CutPrefix(arg, "+"); ok {
				b = append(b, unhex(ts, tail)...)
			} else {
				b = format.AppendTraceEntry(b, format.V1, named(arg))
			}
		}
		writeState(ts, args[0], b)
	},
	"bytes": func(ts *testscript.TestScript, _ bool, args []string) {
		b := unhex(ts, args[1])
		if len(args) > 2 {
			b = append(b, make([]byte, numberOf(ts, args[2]))...)
		}
		writeState(ts, args[0], b)
	},
	"append": func(ts *testscript.TestScript, _ bool, args []string) {
		writeState(ts, args[0], append([]byte(ts.ReadFile(args[0])), unhex(ts, args[1])...))
	},
	"truncate": func(ts *testscript.TestScript, _ bool, args []string) {
		b := []byte(ts.ReadFile(args[0]))
		writeState(ts, args[0], b[:indexOf(ts, b, args[1])])
	},
	"flip": func(ts *testscript.TestScript, _ bool, args []string) {
		b := []byte(ts.ReadFile(args[0]))
		b[indexOf(ts, b, args[1])]++
		writeState(ts, args[0], b)
	},
	"killed": func(ts *testscript.TestScript, _ bool, args []string) {
		written, waiting := numberOf(ts, args[1]), numberOf(ts, args[2])
		for pending := -1; pending != waiting; { // try again if the recorder has already written some of them to the file
			pending = leaveKilled(ts, args[0], written, waiting)
		}
	},
	"lock": func(ts *testscript.TestScript, _ bool, args []string) {
		f, err := osfile.OpenWrite(ts.MkAbs(args[0]))
		ts.Check(err)
		ts.Defer(func() { _ = f.Close() }) // nothing was written to it
		ts.Check(osfile.Lock(f, true))
	},
	"finalize": func(ts *testscript.TestScript, neg bool, args []string) {
		endState(ts, neg, format.Finalize(context.Background(), ts.MkAbs(args[0]), ts.MkAbs(args[1]), nil))
	},
	"recover": func(ts *testscript.TestScript, neg bool, args []string) {
		out := ""
		if len(args) > 1 {
			out = ts.MkAbs(args[1])
		}
		r, err := recorder.Recover(ts.MkAbs(args[0]), out)
		if err == nil {
			printReport(ts, r)
		}
		endState(ts, neg, err)
	},
	"recoverFolder": func(ts *testscript.TestScript, neg bool, _ []string) {
		endState(ts, neg, recorder.RecoverFolder(context.Background(), ts.MkAbs("."), func(r *recorder.Report, err error) {
			if err == nil {
				printReport(ts, r)
			} else {
				fmt.Fprintln(ts.Stderr(), err)
			}
		}))
	},
	"create": func(ts *testscript.TestScript, neg bool, args []string) {
		rec, err := recorder.Create(ts.MkAbs(args[0]), &recorder.Options{
			OnNotice: func(text string) { fmt.Fprintln(ts.Stdout(), text) },
			OnError:  func(err error) { fmt.Fprintln(ts.Stdout(), "error:", err) },
		})
		if err == nil {
			for _, name := range args[1:] {
				_, err := rec.Append(named(name))
				ts.Check(err)
			}
			err = rec.Close(context.Background())
		}
		endState(ts, neg, err)
	},
	"left": func(ts *testscript.TestScript, _ bool, want []string) {
		list, err := os.ReadDir(ts.MkAbs("."))
		ts.Check(err)
		var got []string
		for _, e := range list {
			line := aTime.ReplaceAllString(e.Name(), "TIME")
			if f, err := recorder.Open(ts.MkAbs(e.Name()), nil); err == nil {
				line += " " + outlineOf(ts, f, 0)
				ts.Check(f.Close())
			}
			got = append(got, line)
		}
		if got, want := strings.Join(got, "\n"), strings.Join(want, "\n"); got != want {
			ts.Fatalf("the folder has\n%s\nwant\n%s", got, want)
		}
	},
}

// leaveKilled writes the files for the script command "killed". It returns how many entries only the journal has.
func leaveKilled(ts *testscript.TestScript, name string, written, waiting int) (pending int) {
	live := filepath.Join(ts.Getenv("WORK"), ".live")
	ts.Check(os.Mkdir(live, 0o700))
	rec, err := recorder.Create(filepath.Join(live, "app.et"), &recorder.Options{BufferDir: live})
	ts.Check(err)
	for i := range written + waiting {
		ts.Check(rec.Log(format.SpanRef{}, named(fmt.Sprint("record", i))))
		if i == written-1 {
			ts.Check(rec.Flush(context.Background()))
		}
	}
	// The journal first: a later one might say that its records are in the file.
	for _, ext := range []string{".buffer", ""} {
		b, err := os.ReadFile(rec.StreamPath() + ext)
		ts.Check(err)
		if ext == "" || waiting > 0 {
			writeState(ts, name+ext, b)
		}
	}
	ts.Check(errors.Join(rec.Close(context.Background()), os.RemoveAll(live)))
	r, err := recorder.Inspect(ts.MkAbs(name))
	ts.Check(err)
	return r.Pending
}

var aTime = regexp.MustCompile(`20\d{6}T\d{6}\.\d{3}Z`)

// endState ends a command with the error err. neg means that an error is expected.
func endState(ts *testscript.TestScript, neg bool, err error) {
	fmt.Fprint(ts.Stdout()) // replaces the output of the previous command
	if !neg {
		ts.Check(err)
	} else if err == nil {
		ts.Fatalf("it succeeds, want an error")
	}
	if err != nil {
		fmt.Fprintln(ts.Stderr(), err)
	}
}

func printReport(ts *testscript.TestScript, r *recorder.Report) {
	fmt.Fprintf(ts.Stdout(), "%s, %d entries, %d of %d bytes, %d pending: %s", r.Reason, r.Entries, r.GoodBytes, r.Size, r.Pending, filepath.Base(r.Output))
	if r.Broken != "" {
		fmt.Fprintf(ts.Stdout(), ", %s", filepath.Base(r.Broken))
	}
	fmt.Fprintln(ts.Stdout())
}

// outlineOf returns the name of an entry, and in brackets the names of its descendants.
func outlineOf(ts *testscript.TestScript, f *format.File, id uint32) string {
	if f.Len() == 0 {
		return "nothing"
	}
	e, err := f.Entry(id)
	ts.Check(err)
	text := e.Metadata.Name
	var kids []string
	for _, kid := range f.Children(id) {
		kids = append(kids, outlineOf(ts, f, kid))
	}
	if len(kids) > 0 {
		text += "(" + strings.Join(kids, " ") + ")"
	}
	return text
}

// writeState writes a file with an old modification time, as a dead program has left it.
func writeState(ts *testscript.TestScript, name string, b []byte) {
	name = ts.MkAbs(name)
	ts.Check(os.WriteFile(name, b, 0o600))
	ts.Check(os.Chtimes(name, time.Time{}, time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)))
}

func unhex(ts *testscript.TestScript, text string) []byte {
	b, err := hex.DecodeString(text)
	ts.Check(err)
	return b
}

func numberOf(ts *testscript.TestScript, text string) int {
	n, err := strconv.Atoi(text)
	ts.Check(err)
	return n
}

// indexOf returns an index of b. A negative number counts from the end.
func indexOf(ts *testscript.TestScript, b []byte, text string) int {
	n := numberOf(ts, text)
	if n < 0 {
		n += len(b)
	}
	return n
}

func named(name string) *format.TraceEntry {
	return tracetest.Entry(name)
}
