package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/entrace-go/entrace/view"
)

// A timeStyle is a value of --time: the form in which times are printed.
type timeStyle string

const (
	timeNone   timeStyle = "none"
	timeOffset timeStyle = "offset"
	timeUTC    timeStyle = "utc"
	timeLocal  timeStyle = "local"
)

func (s timeStyle) check() error {
	switch s {
	case timeNone, timeOffset, timeUTC, timeLocal:
		return nil
	}
	return usagef("--time is %q: must be offset, utc, local or none", string(s))
}

// zone returns the time zone in which dates are printed and read.
func (s timeStyle) zone() *time.Location {
	if s == timeUTC {
		return time.UTC
	}
	return time.Local
}

// at formats t, in nanoseconds since 1970, in the time zone of s.
func (s timeStyle) at(t int64, layout string) string {
	return time.Unix(0, t).In(s.zone()).Format(layout)
}

// clock is the layout of a time of day.
const clock = "15:04:05.000000"

// format returns the text of time t and a space. An offset is the time since first.
func (s timeStyle) format(t, first time.Time) string {
	switch s {
	case timeOffset:
		text := "+" + duration(t.Sub(first))
		if d := t.Sub(first); d >= time.Second {
			text = fmt.Sprintf("+%d.%06ds", d/time.Second, d%time.Second/time.Microsecond)
		}
		return strings.Repeat(" ", max(0, 8-len([]rune(text)))) + text + " "
	case timeUTC:
		return t.UTC().Format(clock) + "Z "
	case timeLocal:
		return t.Local().Format(clock) + " "
	}
	return ""
}

// timeOf returns the text in the time column for row r.
func (p *printer) timeOf(r view.Row) string {
	if p.time == timeNone {
		return ""
	}
	if t, ok := p.v.Time(r); ok {
		return p.time.format(t, p.first)
	}
	return strings.Repeat(" ", len([]rune(p.time.format(p.first, p.first))))
}
