package slogadapter

import (
	"sync/atomic"
	"time"
)

// A day is a date that was formatted lately.
type day struct {
	number int64 // days since 1970
	text   [10]byte
}

var lastDay atomic.Pointer[day]

const digits = "00010203040506070809" + "10111213141516171819" + "20212223242526272829" + "30313233343536373839" + "40414243444546474849" +
	"50515253545556575859"

// appendTime appends t as time.RFC3339Nano has it. The times of records are of one
// day mostly, and so the date is a copy.
func appendTime(b []byte, t time.Time) []byte {
	_, offset := t.Zone()
	if offset <= -100*3600 || offset >= 100*3600 {
		return t.AppendFormat(b, time.RFC3339Nano) // more digits than below
	}
	sec := t.Unix() + int64(offset)
	number := sec / 86400
	d := lastDay.Load()
	if d == nil || d.number != number || sec < 0 {
		year, month, dom := t.Date()
		if sec < 0 || year > 9999 {
			return t.AppendFormat(b, time.RFC3339Nano)
		}
		d = &day{number: number}
		time.Date(year, month, dom, 0, 0, 0, 0, time.UTC).AppendFormat(d.text[:0], time.DateOnly)
		lastDay.Store(d)
	}
	b = append(b, d.text[:]...)
	rest := int(sec - number*86400)
	h, m, s := rest/3600*2, rest/60%60*2, rest%60*2
	b = append(b, 'T', digits[h], digits[h+1], ':', digits[m], digits[m+1], ':', digits[s], digits[s+1])
	if n := t.Nanosecond(); n > 0 {
		b = append(b, ".000000000"...)
		t := b[len(b)-9:]
		hi, lo := uint32(n)/10000, uint32(n)%10000*10 // five digits, and four
		_ = t[8]
		t[0] = byte('0' + hi/10000)
		t[1], t[2] = byte('0'+hi/1000%10), byte('0'+hi/100%10)
		t[3], t[4] = byte('0'+hi/10%10), byte('0'+hi%10)
		t[5], t[6] = byte('0'+lo/10000), byte('0'+lo/1000%10)
		t[7], t[8] = byte('0'+lo/100%10), byte('0'+lo/10%10)
		for b[len(b)-1] == '0' {
			b = b[:len(b)-1]
		}
	}
	if offset == 0 {
		return append(b, 'Z')
	}
	sign := byte('+')
	if offset < 0 {
		sign, offset = '-', -offset
	}
	zone := offset / 60
	h, m = zone/60, zone%60
	return append(b, sign, byte('0'+h/10), byte('0'+h%10), ':', byte('0'+m/10), byte('0'+m%10))
}
