package fit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"sort"

	"github.com/entrace-go/entrace/internal/text/jsontext"
)

// addJSON adds a line of JSON. A line that begins with a brace begins an object. Objects that begin after the output
// has more than Most bytes are only counted.
func (a *Answer) addJSON(line []byte) {
	if bytes.HasPrefix(line, []byte("{")) {
		a.objects++
		if a.size <= a.Most {
			a.values = append(a.values, nil)
		}
	}
	if last := len(a.values) - 1; last >= 0 && len(a.values) == a.objects {
		a.values[last] = append(append(a.values[last], line...), '\n')
		a.size += len(line)
	}
}

// Fold returns the line to print in place of several rows. If the output is JSON, Fold returns nil: JSON has these lines
// in the list folds.
func (a *Answer) Fold(line []byte) []byte {
	if !a.JSON {
		return line
	}
	a.folds = append(a.folds, line)
	return nil
}

// finishJSON returns one object: the object that the command has printed, or an object that has all rows. Its last line
// has the key complete. It is false if something is left out, or if the object of the command says that itself.
func (a *Answer) finishJSON(command string) []byte {
	var doc []byte
	key := "rows"
	if a.objects == 1 && bytes.HasPrefix(a.values[0], []byte("{\n")) {
		doc, key = a.values[0], "objects"
	} else {
		doc = append(append([]byte(`{"rows":[`), bytes.Join(a.values, []byte(","))...), ']')
		if len(a.folds) > 0 {
			doc = append(append(append(doc, `,"folds":[`...), bytes.Join(a.folds, []byte(","))...), ']')
		}
		doc = append(doc, '}')
	}
	s := a.shrunk(doc)
	if s == nil { // not even the keys of the object fit
		s = &shrinker{out: []byte("{"), left: map[string]int{key: len(a.values)}}
	}
	s.left["rows"] += a.Left.Rows + a.objects - len(a.values)
	s.left["folded_rows"] += a.Left.Folded
	s.left["long_texts"] += a.Left.Texts
	maps.DeleteFunc(s.left, func(_ string, n int) bool { return n == 0 })
	out := s.out
	if len(out) > 1 {
		out = append(out, ",\n"...)
	}
	if len(s.left) == 0 && !s.partial {
		return append(out, "\"complete\":true}\n"...)
	}
	left, _ := json.Marshal(s.left) // numbers have no errors
	last := fmt.Sprintf(`"complete":false,"left_out":%s,"all":`, left)
	all := jsontext.AppendSafeString(nil, command)
	if len(last)+len(all) >= maxLast {
		all = jsontext.AppendSafeString(nil, sameCommand)
	}
	return append(append(append(out, last...), all...), "}\n"...)
}

// shrunk returns a copy of the object doc that fits, without its last brace. All lists of the copy have the same maximum
// number of elements. It returns nil if no copy fits.
func (a *Answer) shrunk(doc []byte) (s *shrinker) {
	try := func(elements, text int) bool {
		s = &shrinker{elements: elements, bytes: text, left: make(map[string]int)}
		return s.copy(doc, a.Most-len(",\n"))
	}
	for _, least := range []int{1, 0} { // empty lists only if lists with an element do not fit, however short the texts are
		for _, most := range []int{max(a.Most/8, 64), 64, 16} {
			tooMany := sort.Search(a.Most+1, func(n int) bool { return !try(n, most) })
			if tooMany > least {
				try(tooMany-1, most)
				return s
			}
		}
	}
	return nil
}

// A shrinker copies JSON. It copies the given number of elements of each list, and about as many bytes of each text as
// the field bytes says.
type shrinker struct {
	elements, bytes int
	from            *json.Decoder
	out             []byte
	left            map[string]int // the number of elements left out, by the key of their list; and "long_texts"
	partial         bool           // the object has "complete": false
}

// comma appends a comma, unless the copy is at the beginning of a list or an object.
func (s *shrinker) comma() {
	if last := s.out[len(s.out)-1]; last != '[' && last != '{' {
		s.out = append(s.out, ',')
	}
}

// copy copies the object doc without its last brace. It returns false if it has more than most bytes.
func (s *shrinker) copy(doc []byte, most int) bool {
	s.from = json.NewDecoder(bytes.NewReader(doc))
	s.from.UseNumber()
	s.value("", most)
	s.out = bytes.TrimSuffix(s.out, []byte("}"))
	return len(s.out) <= most
}

// value copies a value that has a key, or is in a list that has the key. It stops early if the copy is too long.
func (s *shrinker) value(key string, most int) {
	token, err := s.from.Token()
	if err != nil || len(s.out) > most {
		return
	}
	switch x := token.(type) {
	case json.Delim:
		s.out = append(s.out, x.String()...)
		for n := 0; s.from.More() && len(s.out) <= most; n++ {
			inner := key
			if x == '{' {
				name, _ := s.from.Token() // a key is a text
				inner, _ = name.(string)
			}
			whole := key == "" && inner == "complete" // the key of the object itself, which goes into the last line
			if whole || x == '[' && n >= s.elements {
				var skipped json.RawMessage
				if s.from.Decode(&skipped) != nil {
					return
				}
				switch {
				case whole:
					s.partial = string(skipped) == "false"
				case bytes.ContainsAny(skipped[:1], `{["`):
					s.left[key]++
				default: // a list of numbers, such as a pair, is copied completely
					s.comma()
					s.out = append(s.out, skipped...)
				}
				continue
			}
			s.comma()
			if x == '{' {
				s.out = append(jsontext.AppendSafeString(s.out, inner), ':')
			}
			s.value(inner, most)
		}
		end, _ := s.from.Token()
		s.out = fmt.Append(s.out, end)
	case string:
		var left Left
		s.out = jsontext.AppendSafeString(s.out, left.Shortened(x, s.bytes))
		s.left["long_texts"] += left.Texts
	default:
		b, _ := json.Marshal(x) // has no errors: x is a number, true, false or null
		s.out = append(s.out, b...)
	}
}
