package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/read/show"
	texts "github.com/entrace-go/entrace/internal/text"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/redact"
)

// A runLine describes one recording: a line of the output of runs.
type runLine struct {
	File    string    `json:"file"`
	Time    time.Time `json:"time"` // when the file was last written
	Bytes   int64     `json:"bytes"`
	Service string    `json:"service"`
	Host    string    `json:"host"`
	PID     int64     `json:"pid"`
	Version string    `json:"version"`
	Command string    `json:"command,omitempty"` // the command that entrace run ran, with its arguments; "" for another recording
	State   string    `json:"state"`             // how it ended, or why it cannot be read

	*analyze.Counts // nil with --brief, and if the file cannot be read
}

func runsCommand() *command {
	var brief, asJSON bool
	policyName := ""
	return &command{
		use:   "runs [FILE|DIR]...",
		short: "List recordings, the newest first",
		long: `runs lists recordings, the newest first, with their contents and failures, and how they ended.

  entrace runs                    of the current folder, and of its folders *-traces
  entrace runs --brief traces     without figures: reads only the beginning and the end of files
  entrace explain @last --against @last~1

Each line has the time of the last write, the size, the numbers of spans, failed requests and open spans, the 95th
percentile of request durations, the file, the service (or the command, if it sent nothing to entrace run), the
version, host and process, and how the recording ended. runs prints a line as soon as it has read the file.

In every command, FILE can be @last for the newest recording, @last~1 for the one before, and @last:shop for the
newest of the service shop.`,
		args: cobra.ArbitraryArgs,
		flags: func(flags *pflag.FlagSet) {
			flags.BoolVar(&brief, "brief", false, "print no figures, and read only the beginning and the end of files")
			flags.BoolVar(&asJSON, "json", false, "print JSON, one object on each line")
			redactFlag(flags, &policyName, redactRead)
		},
		fits: true,
		run: func(ctx context.Context, c *console, names []string) error {
			policy, err := policyOf(policyName)
			if err != nil {
				return err
			}
			secrets := redact.New(policy, nil)
			if len(names) == 0 {
				names = []string{"."}
			}
			var list []*runLine
			for _, name := range names {
				found, err := tracesIn(name, true)
				if err != nil {
					return err
				}
				list = append(list, found...)
			}
			if len(list) == 0 {
				return fmt.Errorf("%s: %w", strings.Join(names, ", "), convert.ErrNoTrace)
			}
			slices.SortStableFunc(list, newerFirst)
			width := 0
			for _, x := range list {
				width = max(width, utf8.RuneCountInString(show.Safe(x.File)))
			}
			collectAt(100) // the memory for a recording is freed before the next recording is read
			if !asJSON {
				_, err = fmt.Fprintf(c.out, runColumns+"\n", "written", "size", "  spans  failed  open      p95", width, "file", "service", "version", "process", "state")
			}
			for _, x := range list {
				if err != nil {
					return err
				}
				x.read(ctx, brief)
				x.State, x.Command = secrets.Text(x.State), secrets.Text(x.Command) // the state can have the text of a panic
				text := x.text(width)
				if asJSON {
					b, _ := json.Marshal(x) // it has only texts, numbers and a time
					text = safeJSON(b)
				}
				_, err = fmt.Fprintln(c.out, text)
				err = errors.Join(err, ctx.Err())
			}
			return err
		},
	}
}

// summary describes the recording in a few words, for a list from which a user chooses.
func (x *runLine) summary() string {
	return show.Safe(strings.Join([]string{x.Time.Format(time.DateTime), x.Service, x.Version, x.State}, "  "))
}

func newerFirst(a, b *runLine) int { return b.Time.Compare(a.Time) }

// read reads the recording. With brief, it reads only the beginning of the file, and the end if its recorder closed it.
func (x *runLine) read(ctx context.Context, brief bool) {
	if brief {
		if f, err := recorder.Open(x.File, nil); err == nil {
			x.head(f)
			_ = f.Close() // nothing was written to it
			state, _ := convert.StateOf(ctx, x.File, true)
			x.State = state.String()
			return
		}
	}
	t, err := convert.Open(ctx, []string{x.File}, nil)
	if t != nil {
		defer t.Close()
		x.head(t.View().Files()[0])
		x.State = stateText(statesOf(t))
		x.Counts, err = analyze.CountsOf(ctx, t.View())
	}
	if err != nil {
		x.State = "cannot be read: " + err.Error()
	}
}

// maxHead is the maximum number of entries in which head looks for resources.
const maxHead = 100

// head reads the first resource of f that does not belong to entrace run, and the command that entrace run has started.
func (x *runLine) head(f *format.File) {
	ran := uint32(0) // the resource of entrace run, which is above the span of its command
	for id, looked := uint32(1), 0; id < uint32(f.Len()) && looked < maxHead; id++ {
		up := f.Parent(id)
		if up != 0 && up != ran {
			continue
		}
		looked++
		e, err := f.Entry(id)
		if err == nil && up != 0 {
			var args []string
			text, _ := e.Attribute(mapping.AttrCommand)
			_ = json.Unmarshal([]byte(text.Text()), &args) // an entry without a command has no arguments
			x.Command = cmp.Or(x.Command, strings.Join(args, " "))
			continue
		}
		if err != nil || e.Metadata.Name != format.NameResource && e.Metadata.Name != mapping.NameTrace {
			continue
		}
		text := func(name string) string {
			v, _ := e.Attribute(name)
			return strings.Clone(v.Text())
		}
		pid, _ := e.Attribute(mapping.AttrProcessID)
		n, _ := pid.I64() // 0 if there is none
		x.Host, x.PID = cmp.Or(text(mapping.AttrHostName), x.Host), cmp.Or(n, x.PID)
		if e.Metadata.Name != format.NameResource {
			continue
		}
		x.Service = cmp.Or(text("service.name"), strings.Clone(e.Message.Value))
		modified, _ := e.Attribute(mapping.AttrModified)
		x.Version = versionText(text(mapping.AttrServiceVersion), text(mapping.AttrRevision), modified.Bool())
		if x.Service != mapping.RunService {
			return
		}
		ran = id
	}
}

// versionText returns a version with the beginning of its revision. It leaves out a version that Go has made of the
// revision.
func versionText(version, revision string, modified bool) string {
	revision = revision[:min(len(revision), 12)]
	if revision != "" && strings.Contains(version, revision) {
		version = ""
	}
	version = strings.TrimSpace(version + " " + revision)
	if modified {
		version += " modified"
	}
	return version
}

// maxCommand is the maximum number of bytes of a command in a line for people.
const maxCommand = 40

// runColumns is the format of a line for people.
const runColumns = "%-19s  %9s  %-30s  %-*s  %-16s  %-16s  %-12s  %s"

// text returns the line for people. The column of files has the given width.
func (x *runLine) text(width int) string {
	figures := ""
	if n := x.Counts; n != nil {
		figures = fmt.Sprintf("%7d  %6d  %4d", n.Spans, n.Failed, n.Open)
		if n.Requests > 0 {
			figures += fmt.Sprintf("  %7s", duration(n.P95))
		}
	}
	size := fmt.Sprintf("%.1fkB", float64(x.Bytes)/1e3)
	service := x.Service
	if service == mapping.RunService && x.Command != "" { // the command sent nothing
		service = texts.Cut(x.Command, maxCommand)
	}
	process := strings.TrimSuffix(fmt.Sprint(x.Host, " ", x.PID), " 0")
	return show.Safe(fmt.Sprintf(runColumns, x.Time.Format(time.DateTime), size, figures, width, x.File, service, x.Version, process, x.State))
}
