package quantity

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// ErrDuration is returned for text that is not a duration.
var ErrDuration = errors.New("not a duration such as 250ms, 1m30s, 72h or 7d")

// ParseDuration is like [time.ParseDuration], but the text may begin with an integer number of days, such as 7d
// or 1d12h. The errors are ErrDuration and ErrRange.
func ParseDuration(text string) (time.Duration, error) {
	const day = 24 * time.Hour
	unsigned := strings.TrimPrefix(text, "-")
	number, rest, days := strings.Cut(unsigned, "d")
	if !days {
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, ErrDuration
		}
		return d, nil
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, ErrDuration
	}
	var d time.Duration
	if rest != "" {
		d, err = time.ParseDuration(rest)
		if err != nil || rest[0] == '-' || rest[0] == '+' {
			return 0, ErrDuration
		}
	}
	if n > uint64((math.MaxInt64-d)/day) {
		return 0, ErrRange
	}
	d += time.Duration(n) * day
	if unsigned != text {
		d = -d
	}
	return d, nil
}

// ParseTime is like ParseDuration, but also accepts a number without a unit, in milliseconds. OpenTelemetry's
// environment variables have this form.
func ParseTime(text string) (time.Duration, error) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		d, err := ParseDuration(text)
		if errors.Is(err, ErrDuration) {
			err = errTime
		}
		return d, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n > math.MaxInt64/int64(time.Millisecond) {
		return 0, ErrRange
	}
	return time.Duration(n) * time.Millisecond, nil
}

var errTime = errors.New("must be milliseconds, or a duration such as 5s, 1m30s or 7d")
