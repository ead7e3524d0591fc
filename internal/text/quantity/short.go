package quantity

import (
	"bytes"
	"strconv"
	"time"
)

// AppendShort appends d, rounded to about three digits.
func AppendShort(b []byte, d time.Duration) []byte {
	unit, name := time.Second, "s"
	switch {
	case d >= time.Minute:
		return append(b, d.Round(100*time.Millisecond).String()...)
	case d >= time.Second:
	case d >= time.Millisecond:
		unit, name = time.Millisecond, "ms"
	case d >= time.Microsecond:
		unit, name = time.Microsecond, "µs"
	default:
		return append(strconv.AppendInt(b, int64(d), 10), "ns"...)
	}
	from := len(b)
	b = strconv.AppendFloat(b, float64(d)/float64(unit), 'g', 3, 64)
	if bytes.IndexByte(b[from:], 'e') >= 0 {
		b = strconv.AppendInt(b[:from], int64(d/unit), 10)
	}
	return append(b, name...)
}
