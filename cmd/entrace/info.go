package main

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/osfile"
)

// info is what 'entrace info --json' prints.
type info struct {
	File       string           `json:"file"`
	Version    format.Version   `json:"version"`
	Format     string           `json:"format"`
	Entries    int              `json:"entries"`
	Bytes      int64            `json:"bytes"`
	ValidBytes int64            `json:"valid_bytes"`
	Spans      int              `json:"spans"`
	OpenSpans  int              `json:"open_spans"`
	Logs       int              `json:"logs"`
	Events     int              `json:"events"`
	Links      int              `json:"links"`
	MaxDepth   int              `json:"max_depth"` // of the view; the root has 0
	Services   []string         `json:"services"`
	FirstTime  *time.Time       `json:"first_time"`        // null without any
	LastTime   *time.Time       `json:"last_time"`         // the end of what took longest
	Ended      bool             `json:"ended"`             // the recorder was closed
	Rotated    bool             `json:"rotated"`           // another file follows
	Live       bool             `json:"live"`              // a process is writing
	Pending    int              `json:"in_crash_buffer"`   // of the entries, those that are not in the file
	Journal    string           `json:"journal,omitempty"` // why there may be more
	Cut        format.CutReason `json:"cut"`
	Damage     string           `json:"damage,omitempty"`
}

func (a *app) infoCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "info FILE...",
		Short: "Say what is in a trace, and whether it is whole",
		Args:  someArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			return each(args, func(name string) error { return a.info(name, asJSON) })
		},
		ValidArgsFunction: completeTraces,
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return c
}

func (a *app) info(name string, asJSON bool) error {
	path, done, err := a.seekable(name)
	if err != nil {
		return err
	}
	defer done()
	lock := lockOf(name)
	f, err := a.openTrace(path, &format.OpenOptions{Prefix: true})
	if err != nil {
		return err
	}
	defer f.Close()
	v, err := format.NewView(f)
	if err != nil {
		return err
	}
	in := info{
		File: f.Name(), Version: f.Version(), Format: f.Format().String(), Entries: f.Len(), Bytes: f.Size(), ValidBytes: f.WholeSize(),
		Services: []string{}, Live: lock.state == osfile.LockHeld, Cut: format.CutClean,
	}
	if err := in.count(v); err != nil {
		return err
	}
	end, err := endingOf(v)
	if err != nil {
		return err
	}
	in.Ended, in.Rotated = end.clean, end.rotated
	var missing error
	if in.Pending, missing = f.Journal(); missing != nil && !errors.Is(missing, format.ErrLocked) {
		in.Journal = missing.Error()
	}
	if err := f.Damage(); err != nil {
		in.Damage, in.Cut = err.Error(), format.CutReasonOf(err)
	}
	if name == "-" {
		in.File = stdinName
	}
	if asJSON {
		err = a.printJSON(in)
	} else {
		_, err = fmt.Fprint(a.out, in.text(end.state(f, lock)))
	}
	return errors.Join(err, torn(name, f.Damage()))
}

// count looks at every entry once.
func (in *info) count(v *format.View) error {
	services := make(map[string]bool)
	var first, last time.Time
	f := v.File()
	err := v.Walk(0, func(id uint32, depth int, _ bool) error {
		in.MaxDepth = max(in.MaxDepth, depth)
		t, timed := v.Time(id)
		switch v.Role(id) {
		case format.RoleSpan:
			in.Spans++
			d, ended, err := v.Ended(id)
			if err != nil {
				return err
			}
			if !ended {
				in.OpenSpans++
			}
			if end := t.Add(d); timed && end.After(last) {
				last = end
			}
		case format.RoleLog:
			in.Logs++
		case format.RoleEvent:
			in.Events++
		case format.RoleLink:
			in.Links++
		case format.RoleResource:
			e, err := f.Entry(id)
			if err != nil {
				return err
			}
			if s := e.Message.Value; s != "" {
				services[s] = true
			}
		case format.RoleRecorder:
			timed = false // is not what happened in the program
		}
		if timed {
			if first.IsZero() || t.Before(first) {
				first = t
			}
			if t.After(last) {
				last = t
			}
		}
		return nil
	})
	in.Services = slices.AppendSeq(in.Services, maps.Keys(services))
	slices.Sort(in.Services)
	if !first.IsZero() {
		in.FirstTime, in.LastTime = &first, &last
	}
	return err
}

func (in *info) text(state string) string {
	var b strings.Builder
	row := func(name string, v any) { fmt.Fprintf(&b, "%-12s %s\n", name, safe(fmt.Sprint(v))) }
	row("file", in.File)
	row("format", fmt.Sprintf("%s, version %d", strings.ToUpper(in.Format), in.Version))
	row("entries", in.Entries)
	row("spans", fmt.Sprintf("%d, %d of them not ended", in.Spans, in.OpenSpans))
	row("log records", in.Logs)
	row("events", in.Events)
	row("links", in.Links)
	row("services", strings.Join(in.Services, ", "))
	if in.FirstTime != nil {
		row("from", in.FirstTime.Format(time.RFC3339Nano))
		row("to", fmt.Sprintf("%s, %s later", in.LastTime.Format(time.RFC3339Nano), duration(in.LastTime.Sub(*in.FirstTime))))
	}
	if in.Pending > 0 {
		row("pending", fmt.Sprintf("%d of the entries are in the crash buffer, which recover brings in", in.Pending))
	}
	if in.Journal != "" {
		row("journal", in.Journal)
	}
	row("bytes", fmt.Sprintf("%d, %d of them whole", in.Bytes, in.ValidBytes))
	row("state", state)
	if in.Damage != "" && !in.Live {
		row("damage", fmt.Sprintf("%s: %s", in.Cut, in.Damage))
	}
	return b.String()
}

func clampDuration(n uint64) time.Duration { return time.Duration(min(n, math.MaxInt64)) }
