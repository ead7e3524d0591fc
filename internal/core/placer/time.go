package placer

import (
	"time"

	"github.com/entrace-go/entrace/internal/core/record"
)

// A timeEncoder formats times like time.RFC3339Nano. It caches the text of the last date, because consecutive times
// are usually on the same day.
type timeEncoder struct {
	day  int64 // the day of date, in days since 1970
	date [10]byte
}

const digits = "00010203040506070809" + "10111213141516171819" + "20212223242526272829" + "30313233343536373839" + "40414243444546474849" +
	"50515253545556575859"

const secondsPerDay = 24 * 60 * 60

func (e *timeEncoder) append(b []byte, i *record.Item) []byte {
	offset := int64(i.Offset)
	sec := int64(i.Lo) + offset
	day := sec / secondsPerDay
	if sec < secondsPerDay || day >= 2_932_896 || offset <= -100*3600 || offset >= 100*3600 { // before 1970 or after 9999
		return i.Time().AppendFormat(b, time.RFC3339Nano)
	}
	if day != e.day {
		e.day = day
		time.Unix(sec, 0).UTC().AppendFormat(e.date[:0], time.DateOnly)
	}
	b = append(b, e.date[:]...)
	rest := int(sec - day*secondsPerDay)
	h, m, s := rest/3600*2, rest/60%60*2, rest%60*2
	b = append(b, 'T', digits[h], digits[h+1], ':', digits[m], digits[m+1], ':', digits[s], digits[s+1])
	b = appendFraction(b, uint32(i.Hi))
	if offset == 0 {
		return append(b, 'Z')
	}
	sign := byte('+')
	if offset < 0 {
		sign, offset = '-', -offset
	}
	zone := offset / 60
	h, m = int(zone/60), int(zone%60)
	return append(b, sign, byte('0'+h/10), byte('0'+h%10), ':', byte('0'+m/10), byte('0'+m%10))
}

// appendFraction appends a dot and the nanoseconds n, without zeros at the end. It appends nothing if n is 0.
func appendFraction(b []byte, n uint32) []byte {
	if n == 0 || n >= 1e9 {
		return b
	}
	b = append(b, ".000000000"...)
	for at := len(b) - 1; n > 0; at-- {
		b[at] = byte('0' + n%10)
		n /= 10
	}
	for b[len(b)-1] == '0' {
		b = b[:len(b)-1]
	}
	return b
}
