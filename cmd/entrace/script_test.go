package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/recorder"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"entrace": main, "shop": shop, "sendotlp": sendOTLP, "records": recordsItself})
}

// TestScript runs the scripts of testdata/script, each in a folder of its own.
func TestScript(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"), Setup: setupScript, Cmds: scriptCommands, UpdateScripts: *update,
		RequireUniqueNames: true, WorkdirRoot: hosttest.TraceDir(t), Condition: condition,
	})
}

var update = flag.Bool("update", false, "write the expected outputs of the scripts again")

// condition implements the condition [buffer]: it holds if recordings on this system have a crash buffer.
func condition(name string) (bool, error) {
	if name != "buffer" {
		return false, fmt.Errorf("there is no condition %s", name)
	}
	return hasBuffer()
}

var hasBuffer = sync.OnceValues(func() (bool, error) {
	dir, err := os.MkdirTemp("", "entrace-test-*")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	_, _, err = crashBuffer(filepath.Join(dir, "x"), 1)
	if errors.Is(err, errNoBuffer) {
		return false, nil
	}
	return err == nil, err
})

// setupScript sets the variables of a script: the id of the recording process, and the folder of the traces
// that ENTRACE's own crate wrote.
func setupScript(e *testscript.Env) error {
	recordings := make(map[string]*recorder.Recorder)
	e.Values["recordings"] = recordings
	e.Defer(func() {
		for _, rec := range recordings {
			_ = rec.Close(context.Background()) // the script has ended
		}
	})
	fixtures, err := filepath.Abs(filepath.Join("..", "..", "format", "testdata"))
	e.Setenv("FIXTURES", fixtures)
	e.Setenv("GORACE", os.Getenv("GORACE"))
	e.Setenv("PID", strconv.Itoa(os.Getpid()))
	return err
}

// scriptCommands are the commands that scripts can use in addition to the commands of testscript:
//
//	record KIND FILE     records a trace of a kind of traceKinds, some of which have arguments
//	open KIND FILE       is like record, but leaves the trace open until close FILE or the end
//	log FILE TEXT...     adds log records to a trace that is open
//	close FILE           closes it
//	killed KIND FILE     leaves the trace in the state of a killed program
//	buffered FILE N      is like killed, with N log records that are only in the crash buffer
//	cut FILE N           cuts off the last N bytes
//	grow FILE TEXT       appends a text in Go's syntax of strings
//	otlp STATUS          starts an endpoint at $OTLP that answers every request with STATUS
//	exits N COMMAND...   runs a command and expects that exit status
var scriptCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"record": func(ts *testscript.TestScript, _ bool, args []string) {
		if args[0] == "shop" {
			ts.Check(os.WriteFile(ts.MkAbs(args[1]), shopFile(), 0o600))
			return
		}
		ts.Check(traceOf(args[0], ts.MkAbs(args[1]), args[2:]...).Close(context.Background()))
	},
	"open": func(ts *testscript.TestScript, _ bool, args []string) {
		recordingsOf(ts)[args[1]] = traceOf(args[0], ts.MkAbs(args[1]), args[2:]...)
	},
	"log": func(ts *testscript.TestScript, _ bool, args []string) {
		rec := recordingsOf(ts)[args[0]]
		for _, text := range args[1:] {
			ts.Check(rec.Log(format.SpanRef{}, logged(text)))
			ts.Check(rec.Flush(context.Background()))
		}
	},
	"close": func(ts *testscript.TestScript, _ bool, args []string) {
		ts.Check(recordingsOf(ts)[args[0]].Close(context.Background()))
		delete(recordingsOf(ts), args[0])
	},
	"killed": func(ts *testscript.TestScript, _ bool, args []string) {
		live := ts.MkAbs("killed.live.iet")
		rec := traceOf(args[0], live, args[2:]...)
		b, err := os.ReadFile(live)
		ts.Check(errors.Join(err, rec.Close(context.Background()), os.Remove(live)))
		ts.Check(os.WriteFile(ts.MkAbs(args[1]), b, 0o600))
	},
	"buffered": func(ts *testscript.TestScript, _ bool, args []string) {
		file, buffer, err := crashBuffer(filepath.Join(ts.Getenv("WORK"), ".buffered"), number(args[1]))
		if errors.Is(err, errNoBuffer) {
			ts.Fatalf("%v: ask [buffer] before", err)
		}
		ts.Check(errors.Join(err, os.WriteFile(ts.MkAbs(args[0]), file, 0o600), os.WriteFile(ts.MkAbs(args[0]+".buffer"), buffer, 0o600)))
	},
	"cut": func(ts *testscript.TestScript, _ bool, args []string) {
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		b := ts.ReadFile(args[0])
		ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(b[:len(b)-n]), 0o600))
	},
	"grow": func(ts *testscript.TestScript, _ bool, args []string) {
		text, err := strconv.Unquote(`"` + args[1] + `"`)
		ts.Check(err)
		f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_WRONLY|os.O_APPEND, 0)
		ts.Check(err)
		_, err = io.WriteString(f, text)
		ts.Check(errors.Join(err, f.Close()))
	},
	"otlp": func(ts *testscript.TestScript, _ bool, args []string) {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)                  // only the answer matters
			if code := number(args[0]); code != http.StatusOK { // an empty body is a response of OTLP
				http.Error(w, "by \x1b[31m"+r.URL.Path, code)
			}
		}))
		ts.Defer(s.Close)
		ts.Setenv("OTLP", s.URL)
	},
	"exits": func(ts *testscript.TestScript, _ bool, args []string) {
		want, err := strconv.Atoi(args[0])
		ts.Check(err)
		err = ts.Exec(args[1], args[2:]...)
		got := 0
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			got = exit.ExitCode()
		} else {
			ts.Check(err)
		}
		if got != want {
			ts.Fatalf("%s: exit status %d, want %d", strings.Join(args[1:], " "), got, want)
		}
	},
}

// errNoBuffer is the error if this system has no crash buffers.
var errNoBuffer = errors.New("no crash buffer here")

// crashBuffer records n log records and returns copies of the file and the crash buffer. The records are
// in the crash buffer and not yet in the file.
func crashBuffer(dir string, n int) (file, buffer []byte, err error) {
	for {
		if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
			return nil, nil, err
		}
		name := filepath.Join(dir, "live.iet")
		rec, err := recorder.Create(name, &recorder.Options{BufferDir: dir})
		if err != nil {
			return nil, nil, err
		}
		d, why := rec.Durability()
		for i := range n {
			err = errors.Join(err, rec.Log(format.SpanRef{}, logged(fmt.Sprint("record ", i))))
		}
		buffer, berr := os.ReadFile(name + ".buffer")
		file, ferr := os.ReadFile(name)
		err = errors.Join(err, rec.Close(context.Background()))
		if d != recorder.DurabilityProcess {
			return nil, nil, errors.Join(errNoBuffer, why)
		}
		// The buffer was read before the file. So if the file has no records, the buffer had them.
		err = errors.Join(err, berr, ferr, os.RemoveAll(dir))
		if err != nil || !bytes.Contains(file, []byte("record ")) {
			return file, buffer, err
		}
	}
}

func recordingsOf(ts *testscript.TestScript) map[string]*recorder.Recorder {
	return ts.Value("recordings").(map[string]*recorder.Recorder)
}
