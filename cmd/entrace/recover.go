package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/control/tracedir"
	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
	"github.com/entrace-go/entrace/recorder"
)

// A recovery is the output of 'entrace recover --json'.
type recovery struct {
	File       string         `json:"file"`
	Output     string         `json:"output"`
	Broken     string         `json:"broken,omitempty"`
	Version    format.Version `json:"version"`
	Format     string         `json:"format"`
	Entries    int            `json:"entries"`
	Bytes      int64          `json:"bytes"`
	ValidBytes int64          `json:"valid_bytes"`
	Discarded  int64          `json:"discarded_bytes"`
	Cut        string         `json:"cut"`
	CutOffset  int64          `json:"cut_offset"`
	Damage     string         `json:"damage,omitempty"`
	Ended      bool           `json:"ended"`
	State      string         `json:"state"`             // of the output, in words
	Pending    int            `json:"from_crash_buffer"` // entries that were not in the file
	Journal    string         `json:"journal,omitempty"` // why records are missing
}

func recoverCommand() *command {
	var output string
	asJSON := false
	return &command{
		use:   "recover FILE|DIR...",
		short: "Finish the traces of programs that died",
		long: `recover finishes the traces of programs that died.

  entrace recover .                        all traces of dead programs in the current folder
  entrace recover app.iet                  app.iet becomes app.et
  entrace recover app.iet -o copy.et       leave app.iet as it is

recover adds the entries of the crash buffer next to FILE, keeps the entries before any damage, and says where
and why the file is damaged. It finishes FILE in place: app.iet becomes app.et, unless its program ended
normally. It keeps a corrupt original as FILE.broken. With -o it writes OUT instead: an IET if OUT ends in .iet,
otherwise an ET.

In a DIR, recover makes an .et from each .iet of a dead program, unless the .iet is complete and read-only. It
makes a trace DATE-…-crash.et from each ring of a flight recorder whose process died. It does not change files
of running processes.`,
		args: someArgs,
		flags: func(flags *pflag.FlagSet) {
			flags.StringVarP(&output, "output", "o", "", "write `OUT` instead of changing FILE")
			flags.BoolVar(&asJSON, "json", false, "print a JSON object")
		},
		run: func(ctx context.Context, c *console, args []string) error {
			if output != "" && len(args) > 1 {
				return usagef("-o works only with a single FILE")
			}
			return each(args, func(name string) error { return recoverName(ctx, c, name, output, asJSON) })
		},
		complete: completeTraces,
	}
}

// recoverName recovers a file, or the files in a folder.
func recoverName(ctx context.Context, c *console, name, output string, asJSON bool) error {
	if name == "-" && output == "" {
		return usagef("to recover from the standard input, set -o to the output file")
	}
	if fi, err := os.Stat(name); err == nil && fi.IsDir() {
		if output != "" {
			return usagef("-o works only with a single FILE, but %s is a folder", name)
		}
		return recoverFolder(ctx, c, name, asJSON)
	}
	path, done, cut, err := seekable(c, name)
	if err != nil {
		return err
	}
	defer done()
	if cut != nil {
		c.say("%s: %s", name, cut)
	}
	if output == "" && path != name {
		return usagef("to recover a compressed file, set -o to the output file")
	}
	if output == "" {
		path, err = toFinish(path)
		if err != nil {
			return err
		}
	}
	r, err := recorder.Recover(path, output)
	if errors.Is(err, fs.ErrExist) && output != "" {
		return thereAlready(output)
	}
	if err != nil {
		return err
	}
	if name == "-" {
		r.Name = stdinName
	}
	return recovered(ctx, c, r, asJSON)
}

// toFinish returns the name of the file that recover writes for the input name. An IET becomes an ET, unless the
// IET has ended cleanly or an ET already exists.
func toFinish(name string) (string, error) {
	base, ok := strings.CutSuffix(name, ".iet")
	if !ok {
		return name, nil
	}
	if _, err := os.Lstat(base + ".et"); err == nil {
		return name, nil
	}
	r, err := recorder.Inspect(name)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, format.ErrTruncated):
		return name, nil
	case err != nil:
		return "", err
	case r.Ended && r.Reason == mapping.CutClean && r.Pending == 0 || r.Format != format.IET:
		return name, nil
	}
	return base + ".et", nil
}

func recovered(ctx context.Context, c *console, r *recorder.Report, asJSON bool) error {
	v := recovery{
		File: r.Name, Output: r.Output, Broken: r.Broken, Version: r.Version, Format: r.Format.String(), Entries: r.Entries,
		Bytes: r.Size, ValidBytes: r.GoodBytes, Discarded: r.Size - r.GoodBytes, Cut: r.Reason, CutOffset: r.GoodBytes, Ended: r.Ended, Pending: r.Pending,
	}
	if r.Journal != nil {
		v.Journal = r.Journal.Error()
	}
	if r.Damage != nil {
		v.Damage = r.Damage.Error()
	}
	state, _ := convert.StateOf(ctx, r.Output, false)
	if state.Word == deadtrace.Ended && !r.Ended {
		state.Word, state.Recovered = deadtrace.Killed, true
		if r.Format == format.ET {
			state.Word = deadtrace.Damaged
		}
	}
	v.State = state.String()
	var err error
	if asJSON {
		err = c.printJSON(v)
	} else {
		err = printRecovery(c, &v, r.Finished()+"; "+v.State)
	}
	if err == nil && r.Entries == 0 && r.Reason != mapping.CutClean {
		return fmt.Errorf("%s: the file ends before its first entry: there is nothing to recover", r.Name)
	}
	if err == nil && r.Reason == mapping.CutCorrupt {
		err = errQuiet
	}
	return err
}

func printRecovery(c *console, v *recovery, finished string) error {
	text := show.Safe(finished) + "\n"
	if v.Journal != "" {
		text += fmt.Sprintf("%s: records are missing: %s\n", show.Safe(v.Output), show.Safe(v.Journal))
	}
	if v.Cut != mapping.CutClean {
		text += fmt.Sprintf("%s: cut at offset %d, %d bytes discarded (%s): %s\n", show.Safe(v.File), v.CutOffset, v.Discarded, v.Cut, show.Safe(v.Damage))
	}
	if v.Broken != "" {
		text += show.Safe(v.Broken) + ": the original\n"
	}
	_, err := io.WriteString(c.out, text)
	return err
}

// recoverFolder finishes the files that dead processes left in a folder: rings of flight recorders, and
// plain recordings.
func recoverFolder(ctx context.Context, c *console, dir string, asJSON bool) error {
	found := 0
	var errs error
	err := tracedir.Recover(ctx, dir, func(r *tracedir.Result, err error) {
		found++
		errs = errors.Join(errs, err)
		if r != nil && r.Output != "" {
			for _, name := range []*string{&r.Name, &r.Output, &r.Broken} { // print the folder as the user named it
				if *name != "" {
					*name = filepath.Join(dir, filepath.Base(*name))
				}
			}
			errs = errors.Join(errs, recovered(ctx, c, &r.Report, asJSON))
		}
	})
	err = errors.Join(errs, err)
	if found == 0 && err == nil && !asJSON {
		_, err = fmt.Fprintf(c.out, "%s: nothing to recover\n", show.Safe(dir))
	}
	return err
}
