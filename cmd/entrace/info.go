package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
	"github.com/entrace-go/entrace/view"
)

// An info is the output of 'entrace info --json'.
type info struct {
	File       string         `json:"file"`
	Files      int            `json:"files,omitempty"` // 0 for a single file
	Version    format.Version `json:"version"`
	Format     string         `json:"format"`
	Entries    int            `json:"entries"`
	Bytes      int64          `json:"bytes"`
	ValidBytes int64          `json:"valid_bytes"`
	Spans      int            `json:"spans"`
	OpenSpans  int            `json:"open_spans"`
	Logs       int            `json:"logs"`
	Events     int            `json:"events"`
	Links      int            `json:"links"`
	MaxDepth   int            `json:"max_depth"` // in the view; the root has depth 0
	Services   []string       `json:"services"`
	FirstTime  *time.Time     `json:"first_time"`        // null if no row has a time
	LastTime   *time.Time     `json:"last_time"`         // the latest end of a row
	Ended      bool           `json:"ended"`             // all files are complete and closed
	Rotated    bool           `json:"rotated"`           // another file follows this one
	Live       bool           `json:"live"`              // a process is writing
	Pending    int            `json:"in_crash_buffer"`   // the number of entries that are only in the crash buffer
	Journal    string         `json:"journal,omitempty"` // why more entries may exist
	State      string         `json:"state"`             // in words; a summary for several files
	States     []fileState    `json:"states"`            // of each file
	Cut        string         `json:"cut"`
	Damage     string         `json:"damage,omitempty"`
	// Shapes has the number of records of each shape of lines, if the files are logs.
	Shapes map[string]uint64 `json:"shapes,omitempty"`

	errors int // failed spans, and error log records and events
}

// A fileState is the state of one file in the output of 'entrace info --json'.
type fileState struct {
	File    string `json:"file"`
	State   string `json:"state"`
	Trigger string `json:"trigger,omitempty"` // for a flight recorder's file
	Reason  string `json:"reason,omitempty"`
}

func infoCommand() *command {
	o := &rowFlags{time: timeLocal, selection: selection{tables: true}}
	return &command{
		use:   "info FILE|DIR...",
		short: "Describe a trace: its contents, its state, and damage",
		long: `info describes a trace: its contents, how its program ended, and whether the file is complete and undamaged.

  entrace info app.et
  entrace info --json app.et | jq .state
  entrace info traces                  of each trace in a folder`,
		flags: func(flags *pflag.FlagSet) {
			o.add(flags)
			o.addTime(flags)
			flags.BoolVar(&o.json, "json", false, "print a JSON object")
		},
		newest: true,
		fits:   true,
		run: func(ctx context.Context, c *console, args []string) error {
			return each(args, func(name string) error { return printInfo(ctx, c, name, o) })
		},
	}
}

func printInfo(ctx context.Context, c *console, name string, o *rowFlags) error {
	t, err := openRows(ctx, c, []string{name}, o)
	if err != nil {
		return err
	}
	defer t.Close()
	v := t.v
	var only view.Set[view.Row]
	if o.selects() {
		only = t.result.Rows
	}
	states := statesOf(t.Trace)
	in := info{File: name, Services: v.Services(), State: stateText(states), Ended: true, Cut: mapping.CutClean}
	if in.Services == nil {
		in.Services = []string{}
	}
	files := v.Files()
	var journals []string
	for i, f := range files {
		s := states[i]
		in.States = append(in.States, fileState{fileName(t.Trace, i), s.String(), s.Trigger, s.Reason})
		in.Ended = in.Ended && s.Word == deadtrace.Ended
		in.Live = in.Live || s.Word == deadtrace.Running
		in.Rotated = s.Rotated // the last file decides
		in.Version, in.Format = f.Version(), string(t.Format(i))
		in.Entries += v.Entries(i)
		in.Bytes += f.Size()
		in.ValidBytes += v.WholeSize(i)
		n, missing := f.Journal()
		in.Pending += n
		if missing != nil && !errors.Is(missing, format.ErrLocked) {
			journals = append(journals, missing.Error())
		}
		if err := v.Damage(i); err != nil && in.Damage == "" {
			in.Damage, in.Cut = err.Error(), format.CutReasonOf(err)
		}
	}
	in.Journal = strings.Join(journals, "; ")
	if len(files) > 1 {
		in.Files = len(files)
	} else {
		in.File = fileName(t.Trace, 0)
	}
	in.count(v, only)
	if o.json {
		err = c.printJSON(in)
	} else {
		printSections(t.w, in.section(o.time.zone()))
	}
	return t.finish(err)
}

// count counts the rows of only, or all rows if only is nil, in one pass.
func (in *info) count(v *view.View, only view.Set[view.Row]) {
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	for r := range v.Rows() {
		if only != nil && !only.Has(r) {
			continue
		}
		start, timed := v.Start(r)
		f := v.Flags(r)
		isError := f.IsError()
		switch f.Role() {
		case view.RoleSpan:
			in.Spans++
			if took, ended := v.Duration(r); !ended {
				in.OpenSpans++
			} else if end := start + int64(took); timed && end > start {
				last = max(last, end)
			}
		case view.RoleLog:
			in.Logs++
		case view.RoleEvent:
			in.Events++
		case view.RoleLink:
			in.Links++
			timed, isError = false, false
		case view.RoleOther:
			if v.Role(v.Parent(r)) == view.RoleRecorder {
				timed, isError = false, false // the row belongs to no span, and may be from another time
			}
		default:
			timed, isError = false, false // the row is not an event of the program
			if v.Name(r) == mapping.NameLines {
				in.countShapes(v, r)
			}
		}
		if isError {
			in.errors++
		}
		if timed {
			first, last = min(first, start), max(last, start)
		}
	}
	if only == nil {
		in.MaxDepth = v.MaxDepth()
	} else {
		for r := range only.All() {
			in.MaxDepth = max(in.MaxDepth, v.Depth(r))
		}
	}
	if first <= last {
		from, to := time.Unix(0, first).UTC(), time.Unix(0, last).UTC()
		in.FirstTime, in.LastTime = &from, &to
	}
}

// countShapes adds the number of records of each shape in a log. The row r holds these numbers.
func (in *info) countShapes(v *view.View, r view.Row) {
	e, err := v.Entry(r)
	if err != nil {
		return
	}
	if in.Shapes == nil {
		in.Shapes = make(map[string]uint64)
	}
	for i := range e.Attributes {
		n, _ := e.Attributes[i].Value.U64()
		in.Shapes[strings.Clone(e.Attributes[i].Name)] += n
	}
}

// section returns the info for people.
func (in *info) section(zone *time.Location) section {
	var lines [][]string
	row := func(name string, v any) { lines = append(lines, []string{name, show.Safe(fmt.Sprint(v))}) }
	row("file", in.File)
	if in.Files > 0 {
		row("files", in.Files)
	} else {
		row("format", fmt.Sprintf("%s, version %d", strings.ToUpper(in.Format), in.Version))
	}
	row("entries", in.Entries)
	row("spans", fmt.Sprintf("%d, %d of them not ended", in.Spans, in.OpenSpans))
	row("log records", in.Logs)
	if len(in.Shapes) > 0 {
		row("shapes", shapesText(in.Shapes))
	}
	row("events", in.Events)
	row("links", in.Links)
	services := strings.Join(in.Services[:min(len(in.Services), maxServices)], ", ")
	if n := len(in.Services) - maxServices; n > 0 {
		services += fmt.Sprintf(" and %d others", n)
	}
	row("services", services)
	if in.FirstTime != nil {
		row("from", in.FirstTime.In(zone).Format(time.RFC3339Nano))
		row("to", fmt.Sprintf("%s, %s later", in.LastTime.In(zone).Format(time.RFC3339Nano), duration(in.LastTime.Sub(*in.FirstTime))))
	}
	if in.Pending > 0 {
		row("pending", fmt.Sprintf("%d of the entries are in the crash buffer; recover adds them to the file", in.Pending))
	}
	if in.Journal != "" {
		row("journal", in.Journal)
	}
	row("bytes", fmt.Sprintf("%d, %d of them whole", in.Bytes, in.ValidBytes))
	row("state", in.State)
	if in.Files > 0 {
		for _, s := range in.States {
			row("", s.File+" "+s.State)
		}
	}
	if in.Damage != "" && !in.Live {
		row("damage", fmt.Sprintf("%s: %s", in.Cut, in.Damage))
	}
	return section{sides: "ll", lines: slices.Values(lines)}
}

// shapesText returns the shapes of lines with their numbers, the most frequent first.
func shapesText(shapes map[string]uint64) string {
	names := slices.SortedFunc(maps.Keys(shapes), func(a, b string) int { return cmp.Or(cmp.Compare(shapes[b], shapes[a]), cmp.Compare(a, b)) })
	for i, name := range names {
		names[i] = fmt.Sprintf("%s %d", name, shapes[name])
	}
	return strings.Join(names, ", ")
}

// maxServices is the maximum number of services in the output of info.
const maxServices = 20
