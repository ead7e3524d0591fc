package main

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/internal/text/quantity"
	"github.com/entrace-go/entrace/redact"
)

// inputFlags determine how files are opened.
type inputFlags struct {
	from, maxTemp string
	redact        string // the value of --redact
	clock         []string
	fields        []string

	follows   bool                    // the files are followed: entries that are missing now come later
	compares  bool                    // times of several services are compared: clocks that seem to be wrong are reported
	corrects  bool                    // without --clock, clocks that seem to be wrong are corrected
	once      bool                    // the trace is encoded only once, and not used otherwise
	progress  func(done, total int64) // if nil, open shows a bar of its own
	corrected []analyze.Clock         // set by open: the clocks that it found and corrected
}

// addFrom adds the flags for opening files of other formats.
func (o *inputFlags) addFrom(flags *pflag.FlagSet) {
	flags.StringVar(&o.from, "from", "", "the format of the files, one of 'entrace convert --list'; by default, entrace recognizes it by the first bytes")
	flags.StringSliceVar(&o.fields, "fields", nil, "the meanings of log fields with unusual names: `time=ts,level=sev`; docs/logs.md lists the meanings")
	flags.StringVar(&o.maxTemp, "max-temp", "", "maximum size of temporary files, 8GiB by default; compressed files, and formats other than ET and IET, need them")
}

// addClock adds --clock.
func (o *inputFlags) addClock(flags *pflag.FlagSet) {
	flags.StringArrayVar(&o.clock, "clock", nil, "correct clocks: `NAME=+120ms` adds 120ms to all times of a file or service; auto finds the offsets")
}

// clocks parses --clock.
func (o *inputFlags) clocks() (all map[string]time.Duration, auto bool, err error) {
	all = make(map[string]time.Duration)
	for _, s := range o.clock {
		if s == "auto" {
			auto = true
			continue
		}
		name, late, ok := strings.Cut(s, "=")
		d, err := time.ParseDuration(late)
		if !ok || err != nil {
			return nil, false, usagef("--clock is %q: must be auto or have the form SERVICE=OFFSET, such as shop=+120ms", s)
		}
		all[name] = d
	}
	return all, auto, nil
}

// namesOf parses --fields.
func (o *inputFlags) namesOf() (all [][2]string, err error) {
	for _, s := range o.fields {
		meaning, name, _ := strings.Cut(s, "=")
		if name == "" || !slices.Contains(convert.LogMeanings(), meaning) {
			return nil, usagef("--fields has %q: must have the form MEANING=NAME; the meanings are %s", s, strings.Join(convert.LogMeanings(), ", "))
		}
		all = append(all, [2]string{meaning, name})
	}
	return all, nil
}

// addLate finds the files and services whose clocks seem to be wrong, adds their corrections to clocks, and returns
// them.
func addLate(clocks map[string]time.Duration, t *convert.Trace) (late []analyze.Clock) {
	var files []string
	for i := range t.View().Files() {
		files = append(files, t.Name(i))
	}
	late = analyze.Clocks(t.View(), files)
	for _, c := range late {
		clocks[c.Name] += c.Late
	}
	return late
}

// open opens files and folders as one view. It reports on stderr which entries come from a crash buffer and which
// are missing.
func open(ctx context.Context, c *console, names []string, o *inputFlags) (*convert.Trace, error) {
	if err := checkFrom(o.from); err != nil {
		return nil, err
	}
	clocks, auto, err := o.clocks()
	if err != nil {
		return nil, err
	}
	fields, err := o.namesOf()
	if err != nil {
		return nil, err
	}
	var room int64 // 0: the default
	if o.maxTemp != "" {
		room, err = quantity.ParseBytes(o.maxTemp)
		if err != nil || room <= 0 {
			return nil, usagef("--max-temp is %q: must be a size such as 8GiB", o.maxTemp)
		}
	}
	progress := o.progress
	if progress == nil && !o.once {
		bar := c.progress()
		defer bar.done()
		progress = bar.update
	}
	policy, err := policyOf(o.redact)
	if err != nil {
		return nil, err
	}
	r := redact.New(policy, nil) // nil without the flag
	stdin := slices.Contains(names, "-")
	if o.corrects && len(o.clock) == 0 && !stdin {
		auto = true
	}
	if auto && stdin {
		return nil, usagef("--clock auto reads the files twice, but standard input can be read only once")
	}
	options := &convert.OpenOptions{
		From: convert.Format(o.from), Redact: r, Clock: clocks, MaxTemp: room, Stdin: c.in, Progress: progress, Once: o.once && !auto, Fields: fields,
		Repeated: func(name string, spans int) {
			c.say("%s: %s in the file twice, shown once", name, count(spans, "span is", "spans are"))
		},
		Journal: func(name string, n int, missing error) {
			if o.follows && errors.Is(missing, format.ErrLocked) {
				missing = nil
			}
			tellJournal(c, name, n, missing)
		},
	}
	t, err := convert.Open(ctx, names, options)
	if t != nil && t.View() != nil && (auto || o.compares) {
		late := addLate(clocks, t)
		var texts []string
		for _, c := range late {
			texts = append(texts, c.Name+" "+c.Text())
		}
		switch text := show.Safe(strings.Join(texts, ", ")); {
		case len(late) > 0 && auto:
			c.say("clocks are corrected: %s", text)
			o.corrected = late
			err = t.Close()
			if err == nil {
				t, err = convert.Open(ctx, names, options)
			}
		case len(late) > 0:
			c.say("clocks seem to be wrong: %s; --clock auto corrects them", text)
		}
	}
	for _, name := range names {
		rings, _ := filepath.Glob(filepath.Join(name, "*.ring")) // none if name is a file
		for _, ring := range rings {
			if died, err := knownRing(ring); died {
				c.say("%s", err)
			}
		}
	}
	if t == nil {
		if len(names) == 1 && names[0] != "-" {
			err = known(names[0], err)
		}
		return nil, err
	}
	if v := t.View(); v != nil && v.Copies() > 0 {
		c.say("%s in several files, shown once", count(v.Copies(), "row is", "rows are"))
	}
	for _, text := range t.LeftOut() {
		c.say("%s", text)
	}
	tellReplaced(c, r)
	return t, nil // t.Damage returns the damage; all intact entries were read
}
