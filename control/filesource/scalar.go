package filesource

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/internal/quantity"
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
	n, err := quantity.ParseBytes(text)
	switch {
	case errors.Is(err, quantity.ErrRange):
		return 0, fmt.Errorf("%s is out of range", quote(text))
	case err != nil:
		return 0, fmt.Errorf("%s is %w", quote(text), err)
	}
	return n, nil
}

// parseDuration reads a duration.
func parseDuration(text string) (time.Duration, error) {
	d, err := quantity.ParseDuration(text)
	switch {
	case errors.Is(err, quantity.ErrRange):
		return 0, fmt.Errorf("%s is out of range", quote(text))
	case err != nil:
		return 0, fmt.Errorf("%s is %w", quote(text), err)
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
func checkParam(name string) error {
	err := fmt.Errorf("parameter %s is not PROVIDER.NAME", quote(name))
	if !isWord(name) {
		return err
	}
	for i := range len(name) - 1 {
		if name[i] != '.' || i == 0 {
			continue
		}
		_, unknown := named(name[:i])
		if unknown == nil {
			return nil
		}
		err = fmt.Errorf("parameter %s: %w", quote(name), unknown)
	}
	return err
}

// isWord reports whether text can stand in a path as it is.
func isWord(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c == utf8.RuneError || !unicode.IsPrint(c) })
}
