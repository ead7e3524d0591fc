package execbatch

import (
	"encoding/binary"
	"errors"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/entrace-go/entrace/redact"
)

// Types of events that contain texts or the numbers of texts.
const (
	stringsTable = 4  // the first byte of a batch of strings
	stringOf     = 5  // [number, size, bytes]
	userLog      = 44 // [time, task, number of the key, number of the value, stack]
)

// arguments has, by the type of an event, the number of arguments that follow the type, including the time. The
// experimental types, from firstExperimental on, are in moreArguments.
var arguments = [...]uint8{
	8: 1, 3, 3, 1, 4, 3, 4, 2, 3, 1, 1, 3, 3, 4, 3, 1, 1, 4, // 8 frequency, 9 to 13 processors, 14 to 25 goroutines
	3, 1, 2, 3, 2, 2, 2, 3, 2, 2, 1, 2, 2, // 26 stops of the world, 28 to 38 collections and the heap
	2, 5, 3, 4, 4, 5, 3, 3, 4, 5, // 39 labels, 40 tasks, regions and logs, 45 to 48 goroutines
	51: 4, // clocks
}

const firstExperimental = 128

var moreArguments = [...]uint8{4, 4, 2, 3, 3, 2, 3, 3, 2}

var (
	errUnknownEvent = errors.New("unknown type of event")
	errTwice        = errors.New("two texts have the same number")
)

// IsTrace reports whether s begins with the header of an execution trace.
func IsTrace(s string) bool {
	return len(s) >= HeaderSize && strings.HasPrefix(s, "go 1.") && strings.HasPrefix(strings.TrimLeft(s[5:HeaderSize], "0123456789"), " trace\x00")
}

// Redact returns the execution trace s without the secrets in its texts. These texts are the names of tasks and
// regions, and the messages of trace.Log. The category of a message is treated as the name of an attribute. Each
// text keeps its size, so that no other byte changes. If s cannot be read, Redact returns s unchanged and an error.
func Redact(r *redact.Redactor, s string) (string, error) {
	t := table{data: unsafe.Slice(unsafe.StringData(s), len(s)), texts: make(map[textKey]text)}
	if err := t.read(); err != nil {
		return s, err
	}
	var out []byte
	replace := func(x text, now string) {
		if was := s[x.from:x.to]; now != was {
			if out == nil {
				out = []byte(s)
			}
			fit(out[x.from:x.to], now)
		}
	}
	for _, x := range t.texts {
		replace(x, r.Text(s[x.from:x.to]))
	}
	// A text may be the value of several messages. Replace it as a whole last, so that this is not undone.
	for _, whole := range []bool{false, true} {
		for _, log := range t.logs {
			key, known := t.texts[log.key]
			x, has := t.texts[log.value]
			name := s[key.from:key.to]
			if verdict := r.Key(name); known && has && (verdict == redact.Replace) == whole {
				replace(x, r.Value(verdict, name, s[x.from:x.to]))
			}
		}
	}
	if out == nil {
		return s, nil
	}
	return string(out), nil
}

// fit copies s to b. It cuts s, or appends blanks, so that b is full.
func fit(b []byte, s string) {
	if len(s) > len(b) {
		s = s[:len(b)]
		for len(s) > 0 && !utf8.ValidString(s) {
			s = s[:len(s)-1]
		}
	}
	for i := copy(b, s); i < len(b); i++ {
		b[i] = ' '
	}
}

// A textKey identifies a text. Each generation numbers its texts from the beginning.
type textKey struct{ generation, number uint64 }

// A text is a part of the trace: its first byte is at the offset from, and the next byte after it at the offset to.
type text struct{ from, to int }

type logged struct{ key, value textKey }

// A table has the texts of an execution trace, and the key and the value of each log message.
type table struct {
	data  []byte
	texts map[textKey]text
	logs  []logged
}

func (t *table) read() error {
	for at := HeaderSize; at < len(t.data); {
		size, generation, ends, err := Next(t.data[at:])
		if err != nil {
			return err
		}
		if size > len(t.data)-at {
			return ErrShort
		}
		if !ends && t.data[at] == batchEvents {
			from := at + 1
			for range 4 {
				_, n := binary.Uvarint(t.data[from:])
				from += n
			}
			if err := t.batch(generation, from, at+size); err != nil {
				return err
			}
		}
		at += size
	}
	return nil
}

// batch reads the events of a batch.
func (t *table) batch(generation uint64, at, end int) error {
	if at == end {
		return nil
	}
	isTable := t.data[at] == stringsTable
	if first := t.data[at]; isTable || first == 2 || first == 6 || first == 50 { // strings, stacks, samples, clocks
		at++
		if first != 50 && !isTable {
			return nil // stacks and samples have no texts
		}
	}
	for at < end {
		kind := t.data[at]
		at++
		if isTable {
			if kind != stringOf {
				return errUnknownEvent
			}
			number, n := binary.Uvarint(t.data[at:end])
			size, m := binary.Uvarint(t.data[at+max(n, 0) : end])
			at += n + m
			if n <= 0 || m <= 0 || size > uint64(end-at) {
				return ErrShort
			}
			if _, twice := t.texts[textKey{generation, number}]; twice {
				return errTwice
			}
			t.texts[textKey{generation, number}] = text{at, at + int(size)}
			at += int(size)
			continue
		}
		most := 0
		if int(kind) < len(arguments) {
			most = int(arguments[kind])
		} else if i := int(kind) - firstExperimental; i >= 0 && i < len(moreArguments) {
			most = int(moreArguments[i])
		}
		if most == 0 {
			return errUnknownEvent
		}
		var args [5]uint64
		for i := range most {
			x, n := binary.Uvarint(t.data[at:end])
			if n <= 0 {
				return ErrShort
			}
			args[i] = x
			at += n
		}
		if kind == userLog {
			t.logs = append(t.logs, logged{textKey{generation, args[2]}, textKey{generation, args[3]}})
		}
	}
	return nil
}
