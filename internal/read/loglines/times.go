package loglines

import (
	"strings"
	"time"
)

// layouts has the forms of times, as in package time. A time may also have a fraction of a second.
var layouts = layoutsOf(`
2006-01-02T15:04:05Z07:00
2006-01-02 15:04:05 MST
2006-01-02 15:04:05
2006-01-02 15:04:05Z07:00
2006-01-02 15:04:05 -0700
2006-01-02T15:04:05Z0700
2006-01-02T15:04:05
2006/01/02 15:04:05
2006/01/02 - 15:04:05
02/Jan/2006:15:04:05 -0700
02/Jan/2006:15:04:05
02-Jan-2006 15:04:05
02 Jan 2006 15:04:05
0102 15:04:05
15:04:05
3:04PM
03:04PM
Mon Jan _2 15:04:05 2006
Jan _2, 2006 3:04:05 PM
Jan _2 15:04:05`)

// A layout is a form of a time.
type layout struct {
	text             string
	words            int // the number of words, which are separated by blanks
	hasYear, hasDate bool
}

func layoutsOf(table string) (all []layout) {
	for text := range strings.SplitSeq(table[1:], "\n") {
		year := strings.Contains(text, "2006")
		all = append(all, layout{text, strings.Count(text, " ") + 1, year, year || strings.Contains(text, "02") || text[0] == 'J'})
	}
	return all
}

// zones has, for each zone, the hours by which it is ahead of UTC. Package time knows only the names of its own zone.
var zones = map[string]time.Duration{"UTC": 0, "GMT": 0, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "MSK": 3, "JST": 9, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "PST": -8, "PDT": -7}

// A clock reads times. It completes a time without a year or a date, so that the time is before limit, but as close
// to limit as possible.
type clock struct {
	limit time.Time
	zone  *time.Location
}

// at reads the time at the beginning of s. n is the length of the time, or 0 if s does not begin with a time.
func (c *clock) at(s string) (unixNano int64, n int) {
	if len(s) < 3 || !isDigit(s[0]) && !isLetter(s[0]) {
		return 0, 0
	}
	for i := range layouts {
		l := &layouts[i]
		if isDigit(s[0]) != isDigit(l.text[0]) || isDigit(s[1]) != isDigit(l.text[1]) || isDigit(s[2]) != isDigit(l.text[2]) {
			continue
		}
		text := wordsOf(s, l.words)
		t, err := time.ParseInLocation(l.text, text, c.zone)
		if err != nil {
			continue
		}
		if name, offset := t.Zone(); strings.HasSuffix(l.text, "MST") && offset == 0 {
			hours, known := zones[name]
			if !known {
				continue
			}
			t = t.Add(-hours * time.Hour)
		}
		return c.completed(t, l).UnixNano(), len(text)
	}
	return 0, 0
}

// completed adds the year or the date to a time that lacks it.
func (c *clock) completed(t time.Time, l *layout) time.Time {
	limit := c.limit.In(t.Location())
	switch {
	case l.hasYear:
	case l.hasDate:
		t = t.AddDate(limit.Year(), 0, 0)
		if t.After(limit.AddDate(0, 0, 1)) {
			t = t.AddDate(-1, 0, 0)
		}
	default:
		t = t.AddDate(limit.Year(), int(limit.Month())-1, limit.Day()-1)
		if t.After(limit.Add(time.Hour)) {
			t = t.AddDate(0, 0, -1)
		}
	}
	return t
}

// wordsOf returns the first words of s, without characters that may directly follow a time.
func wordsOf(s string, words int) string {
	n := 0
scan:
	for ; n < len(s) && n < maxTime; n++ {
		switch s[n] {
		case ']', '|', '\t', '\n':
			break scan
		case ' ':
			if n+1 < len(s) && s[n+1] != ' ' {
				words--
				if words == 0 {
					break scan
				}
			}
		}
	}
	return strings.TrimRight(s[:n], ": ")
}

const maxTime = 40

// isNano reports whether a time has nine digits after the second, and a zone.
func isNano(s string) bool {
	_, fraction, _ := strings.Cut(s, ".")
	return len(fraction) > 9 && isDigit(fraction[8]) && !isDigit(fraction[9])
}

// decimal returns the number whose digits begin s.
func decimal(s string) (n int64) {
	for i := 0; i < len(s) && i < 18 && isDigit(s[i]); i++ {
		n = 10*n + int64(s[i]-'0')
	}
	return n
}

// unitOf returns the unit, in nanoseconds, of a time since 1970. Its size decides whether it counts seconds,
// milliseconds, microseconds or nanoseconds; numbers of the years 1973 to 5138 are unambiguous. The result is 0 if
// the number is not a time.
func unitOf(f float64) float64 {
	switch {
	case !(f > 1e8):
		return 0
	case f < 1e11:
		return 1e9
	case f < 1e14:
		return 1e6
	case f < 1e17:
		return 1e3
	}
	return 1
}
