package slogadapter

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestAppendTime compares with package time over all of what it formats.
func TestAppendTime(t *testing.T) {
	zones := []*time.Location{time.UTC, time.Local, time.FixedZone("", 3600), time.FixedZone("", -5*3600-1800), time.FixedZone("", 14*3600), time.FixedZone("", 7)}
	check := func(at time.Time) {
		t.Helper()
		if got, want := string(appendTime([]byte("x"), at)), "x"+at.Format(time.RFC3339Nano); got != want {
			t.Errorf("%d.%d is %s, want %s", at.Unix(), at.Nanosecond(), got, want)
		}
	}
	for _, zone := range zones {
		for _, sec := range []int64{0, 1, 86399, 86400, 951782400, 1709164800, 4102444799, 253402300799, 253402300800, -1, -86400, -62135596800} {
			for _, nsec := range []int64{0, 1, 10, 999999999, 500000000, 123456000} {
				check(time.Unix(sec, nsec).In(zone))
			}
		}
		for range 2000 {
			check(time.Unix(rand.Int64N(300000000000)-10000000000, rand.Int64N(1e9)).In(zone))
		}
	}
	check(time.Time{})
}
