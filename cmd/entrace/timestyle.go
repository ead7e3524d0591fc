package main

import (
	"fmt"
	"strings"
	"time"
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
		return s.timeOfDay(t, first, clock) + "Z "
	case timeLocal:
		return s.timeOfDay(t, first, clock) + " "
	}
	return ""
}

// timeOfDay returns the time of day of t. It has the date if t is on another day than first, and the offset from UTC if
// clocks were turned.
func (s timeStyle) timeOfDay(t, first time.Time, layout string) string {
	t, first = t.In(s.zone()), first.In(s.zone())
	if t.Format(time.DateOnly) != first.Format(time.DateOnly) {
		layout = time.DateOnly + " " + layout
	}
	if turned(t, first) {
		layout += "Z07:00"
	}
	return t.Format(layout)
}

// turned reports whether t needs its offset from UTC: clocks were turned since first, or are turned within three hours
// of t, so that a time of day may occur twice.
func turned(t, first time.Time) bool {
	_, offset := t.Zone()
	for _, other := range []time.Time{first, t.Add(-3 * time.Hour), t.Add(3 * time.Hour)} {
		if _, o := other.Zone(); o != offset {
			return true
		}
	}
	return false
}
