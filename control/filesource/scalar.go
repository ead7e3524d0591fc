package filesource

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/internal/bytesize"
)

func (r *reader) number(to *int) read { return scalar(r, to, "a whole number", parseInt) }

func (r *reader) size(to *int64) read { return scalar(r, to, "a size", parseSize) }

func (r *reader) duration(to *time.Duration) read {
	return scalar(r, to, "a duration", parseDuration)
}

func parseInt(text string) (int, error) {
	n, err := strconv.Atoi(text)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%s is out of range", quote(text))
	case err != nil:
		return 0, fmt.Errorf("%s is not a whole number", quote(text))
	}
	return n, nil
}

func parseBool(text string) (bool, error) {
	switch text {
	case "true", "True", "TRUE":
		return true, nil
	case "false", "False", "FALSE":
		return false, nil
	}
	return false, fmt.Errorf("%s is neither true nor false", quote(text))
}

// parseSize reads a whole number of bytes with a unit.
func parseSize(text string) (int64, error) {
	n, err := bytesize.Parse(text)
	switch {
	case errors.Is(err, bytesize.ErrRange):
		return 0, fmt.Errorf("%s is out of range", quote(text))
	case err != nil:
		return 0, fmt.Errorf("%s is %w", quote(text), err)
	}
	return n, nil
}

// parseDuration is [time.ParseDuration] with whole days before the rest.
func parseDuration(text string) (time.Duration, error) {
	const day = 24 * time.Hour
	bad := func() (time.Duration, error) {
		return 0, fmt.Errorf("%s is not a duration such as 250ms, 1m30s, 72h or 7d", quote(text))
	}
	unsigned := strings.TrimPrefix(text, "-")
	number, rest, days := strings.Cut(unsigned, "d")
	if !days {
		d, err := time.ParseDuration(text)
		if err != nil {
			return bad()
		}
		return d, nil
	}
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return bad()
	}
	var d time.Duration
	if rest != "" {
		if d, err = time.ParseDuration(rest); err != nil || rest[0] == '-' || rest[0] == '+' {
			return bad()
		}
	}
	if n > uint64((math.MaxInt64-d)/day) {
		return 0, fmt.Errorf("%s is out of range", quote(text))
	}
	d += time.Duration(n) * day
	if unsigned != text {
		d = -d
	}
	return d, nil
}

// parseLevel reads a level as [slog.Level.UnmarshalText] does, and trace, which is
// debug-4.
func parseLevel(text string) (slog.Level, error) {
	if strings.EqualFold(text, "trace") {
		return slog.LevelDebug - 4, nil
	}
	var l slog.Level
	if err := l.UnmarshalText([]byte(text)); err != nil {
		return 0, fmt.Errorf("%s is not a level: there are trace, debug, info, warn, error, and as in error+2", quote(text))
	}
	return l, nil
}

// named returns the provider of that name.
func named(name string) (control.Set, error) {
	s, err := control.Named(name)
	if unknown, ok := errors.AsType[*control.UnknownProviderError](err); ok {
		unknown.Name = shorten(name, 64)
	}
	return s, err
}

// checkParam returns what is wrong with the name of a parameter.
func (r *reader) checkParam(name string) error {
	for _, p := range r.known {
		if rest, ok := strings.CutPrefix(name, p); ok && len(rest) > 1 && rest[0] == '.' && isWord(rest) {
			return nil
		}
	}
	dot := strings.LastIndexByte(name, '.')
	if dot > 0 && dot < len(name)-1 && isWord(name) {
		if _, err := named(name[:dot]); err != nil {
			return fmt.Errorf("parameter %s: %w", quote(name), err)
		}
	}
	return fmt.Errorf("parameter %s is not PROVIDER.NAME", quote(name))
}

// isWord reports whether text can stand in a path as it is.
func isWord(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c == utf8.RuneError || !unicode.IsPrint(c) })
}
