package query

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/view"
)

// parseTimestamp parses a time in the format of RFC 3339, with or without a zone.
func parseTimestamp(s string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999", "2006-01-02"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time", s)
}

// ParseTime parses an argument of --since and --until. It accepts a time in the format of RFC 3339. It accepts a
// time of day, such as 15:04 or 15:04:05.000, on the day of the first row of v in the given zone. It also accepts
// a duration: +30s is 30 seconds after the first row, and -10m is 10 minutes before the last row.
func ParseTime(s string, v *view.View, zone *time.Location) (time.Time, error) {
	first, last, ok := v.Period()
	if d, err := time.ParseDuration(s); err == nil && (strings.HasPrefix(s, "+") || strings.HasPrefix(s, "-")) {
		switch {
		case !ok:
			return time.Time{}, fmt.Errorf("%s: no row of the trace has a time", s)
		case s[0] == '+':
			return time.Unix(0, first).Add(d), nil
		}
		return time.Unix(0, last).Add(d), nil
	}
	for _, layout := range []string{"15:04", "15:04:05", "15:04:05.999999999"} {
		t, err := time.Parse(layout, s)
		if err != nil {
			continue
		}
		if !ok {
			return time.Time{}, fmt.Errorf("%s: no row of the trace has a time", s)
		}
		day := time.Unix(0, first).In(zone)
		return time.Date(day.Year(), day.Month(), day.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), zone), nil
	}
	t, err := parseTimestamp(s)
	if err != nil {
		err = fmt.Errorf("%q is not a time: write 15:04:05, +30s, -10m or 2026-11-22T15:04:05Z", s)
	}
	return t, err
}

// Overlapping returns the rows of a set whose time overlaps the period between from and to, in nanoseconds since
// 1970. A nil set means all rows. A span that has not ended extends to the end of the period. The result does not
// include rows without a time.
func Overlapping(ctx context.Context, v *view.View, rows view.Set[view.Row], from, to int64) (view.Set[view.Row], error) {
	out := v.NewSet()
	c := columns.Of(v)
	err := c.Each(ctx, func() func(k int) {
		return func(k int) {
			b := c.Block(k)
			for i, start := range b.Start {
				if start == columns.NoTime || start > to {
					continue
				}
				end := b.EndOf(i)
				if role := view.Flags(b.Flags[i]).Role(); role == view.RoleFolded {
					continue
				} else if role == view.RoleSpan && b.Duration[i] == columns.NoDuration {
					end = to
				}
				if r := view.Row(b.First) + view.Row(i); end >= from && (rows == nil || rows.Has(r)) {
					out.Add(r)
				}
			}
		}
	})
	return out, err
}
