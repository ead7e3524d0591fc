package archive

import (
	"fmt"
	"strings"
	"time"

	"github.com/entrace-go/entrace/view"
)

// maxParts is the maximum number of objects of a source. A source with more parts may be an attack, or a trace
// with wrong times.
const maxParts = 1000

// A partition holds the rows of a service on a day.
type partition struct {
	service string
	day     string // such as 2026-11-24, or "" if no row of the source has a time
	rows    int
}

// A division maps each row of a view to its partition.
type division struct {
	parts []partition
	of    []uint16 // by row: the index of its partition
}

// divide divides the rows of v by service and day.
func divide(v *view.View) (*division, error) {
	type place struct {
		service string
		day     int64
	}
	first, hasTime := place{}, false
	for r := range v.Rows() {
		if t, ok := v.Start(r); ok && !hasTime {
			first.day, hasTime = dayOf(t), true
		}
		if first.service == "" {
			first.service = v.Service(r)
		}
		if hasTime && first.service != "" {
			break
		}
	}
	d := &division{of: make([]uint16, v.Len())}
	number := make(map[place]int)
	for r := range v.Rows() {
		at := place{v.Service(r), first.day}
		if at.service == "" {
			at.service = first.service
		}
		if t, ok := v.Start(r); ok {
			at.day = dayOf(t)
		} else if t, ok := v.Start(v.Parent(r)); ok {
			at.day = dayOf(t)
		}
		i, known := number[at]
		if !known {
			i = len(d.parts)
			if i == maxParts {
				return nil, fmt.Errorf("the trace has more than %d parts (one for each service on each day)", maxParts)
			}
			number[at] = i
			p := partition{service: at.service}
			if hasTime {
				p.day = time.Unix(at.day*secondsADay, 0).UTC().Format(time.DateOnly)
			}
			d.parts = append(d.parts, p)
		}
		d.of[r] = uint16(i)
		d.parts[i].rows++
	}
	return d, nil
}

const secondsADay = 24 * 60 * 60

// dayOf returns the day of a time in nanoseconds. Days are counted from 1970.
func dayOf(unixNano int64) int64 {
	const day = secondsADay * int64(time.Second)
	n := unixNano / day
	if unixNano%day < 0 {
		n--
	}
	return n
}

// key returns the key of the partition's object. id is the id of the source, and n the number of the object.
func (p *partition) key(id string, n int) string {
	return fmt.Sprintf("service=%s/day=%s/%s-%d.parquet", hiveValue(p.service), hiveValue(p.day), id, n)
}

// hiveNull is the name that query engines read as NULL.
const hiveNull = "__HIVE_DEFAULT_PARTITION__"

// maxValue is the maximum length of a partition's value in a key: a file name can have at most 255 bytes, and an
// S3 key 1024.
const maxValue = 200

// hiveValue returns s as the value of a partition in a key. Different texts may get the same value, because long
// values are cut, and some file systems ignore case.
func hiveValue(s string) string {
	switch s {
	case "":
		return hiveNull
	case hiveNull:
		return "%5F" + s[1:]
	}
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		plain := strings.IndexByte("-_~ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", c) >= 0 ||
			c == '.' && i < len(s)-1 // Windows removes a dot at the end
		if b.Len() > maxValue-len("%2F") {
			break
		}
		if plain {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
