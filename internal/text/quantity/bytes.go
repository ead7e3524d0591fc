// Package quantity parses and prints sizes such as 64MiB and durations such as 7d.
package quantity

import (
	"errors"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

var (
	// ErrSyntax is returned for text that is not a size.
	ErrSyntax = errors.New("not a size such as 1000, 10KB, 64MiB or 2GiB")
	// ErrRange is returned for a size of 2^63 bytes or more.
	ErrRange = errors.New("out of range")
)

var units = map[string]uint64{
	"": 1, "B": 1,
	"KB": 1e3, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
	"k": 1 << 10, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
}

// ParseBytes parses an integer number of bytes with an optional unit, such as 64MiB or 64 MB.
func ParseBytes(text string) (int64, error) {
	digits := strings.TrimLeft(text, "0123456789")
	number, unit := text[:len(text)-len(digits)], strings.TrimPrefix(digits, " ")
	scale, ok := units[unit]
	if number == "" || !ok {
		return 0, ErrSyntax
	}
	n, err := strconv.ParseUint(number, 10, 64)
	hi, lo := bits.Mul64(n, scale)
	if err != nil || hi != 0 || lo > math.MaxInt64 {
		return 0, ErrRange
	}
	return int64(lo), nil
}

// Bytes is a number of bytes that implements the Value interfaces of packages flag and pflag.
type Bytes int64

// Set parses text into v.
func (v *Bytes) Set(text string) error {
	n, err := ParseBytes(text)
	if err == nil {
		*v = Bytes(n)
	}
	return err
}

// Type returns the name of the type for help texts.
func (*Bytes) Type() string { return "size" }

// String returns v in the largest binary unit that gives an integer.
func (v *Bytes) String() string {
	for _, unit := range []string{"TiB", "GiB", "MiB", "KiB"} {
		if n := int64(units[unit]); *v != 0 && int64(*v)%n == 0 {
			return strconv.FormatInt(int64(*v)/n, 10) + unit
		}
	}
	return strconv.FormatInt(int64(*v), 10)
}
