package measureme

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A metadata is the metadata of a file, which is a JSON object.
type metadata struct {
	text      string
	start     uint64 // nanoseconds since 1970
	processID uint32
	command   string
	counter   string
}

// maxStart is the latest start of a profile with which the times of its events fit in an int64.
const maxStart = math.MaxInt64 - maxNano

// parseMetadata parses as much of text as it can. It returns false if text is not a JSON object.
func parseMetadata(text string) (m metadata, ok bool) {
	m.text = text
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &fields) != nil {
		// The reference escapes the command in Rust's way.
		if json.Unmarshal([]byte(unescapeRust(text)), &fields) != nil {
			return m, false
		}
	}
	get := func(name string, to any) {
		if raw, ok := fields[name]; ok {
			_ = json.Unmarshal(raw, to) // a member of a wrong type remains zero
		}
	}
	get("start_time", &m.start)
	get("process_id", &m.processID)
	get("cmd", &m.command)
	var counter struct {
		Name string `json:"name"`
	}
	get("counter", &counter)
	m.counter = counter.Name
	m.start = min(m.start, maxStart)
	return m, fields != nil
}

// unescapeRust replaces the escapes \' and \u{e9} by JSON's escapes.
func unescapeRust(s string) string {
	var b []byte
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b = append(b, s[i])
			continue
		}
		i++
		switch s[i] {
		case '\'':
			b = append(b, '\'')
			continue
		case 'u':
			if hex, _, ok := strings.Cut(strings.TrimPrefix(s[i+1:], "{"), "}"); ok && strings.HasPrefix(s[i+1:], "{") {
				if n, err := strconv.ParseUint(hex, 16, 32); err == nil && utf8.ValidRune(rune(n)) {
					quoted, _ := json.Marshal(string(rune(n))) // every string can be written in JSON
					b = append(b, quoted[1:len(quoted)-1]...)
					i += len(hex) + 2
					continue
				}
			}
		}
		b = append(b, '\\', s[i])
	}
	return string(b)
}

// crateFlag precedes the name of the crate in a command. The tools search this flag.
const crateFlag = " --crate-name "

// service returns the name after crateFlag, or "".
func (m *metadata) service() string {
	_, name, _ := strings.Cut(m.command, crateFlag)
	name, _, _ = strings.Cut(name, " ")
	return name
}
