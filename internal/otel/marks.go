package otel

import (
	"math"
	"slices"
	"unicode/utf8"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/jsontext"
	"github.com/entrace-go/entrace/internal/mapping"
)

// What OTLP has no field for travels as attributes, which AddMarks adds and TakeMarks
// takes away again.

const (
	codeFile = "code.file.path"
	codeLine = "code.line.number"
)

// AddMarks adds to the attributes of s what OTLP has no field for: its place in the
// source, and that it is open.
func (s *Span) AddMarks() {
	s.Attributes = addPlace(s.Attributes, &s.Metadata)
	if !s.Ended && !s.Unmarked {
		s.Attributes = append(s.Attributes, Attribute{Name: AttrOpen, Value: format.BoolValue(true)})
	}
}

// TakeMarks takes from the attributes of s, which was read from OTLP, what AddMarks added.
// The place in the source stays, as spans keep it in both.
func (s *Span) TakeMarks() {
	if s.Unmarked = !s.Ended; !s.Unmarked {
		return
	}
	n := len(s.Attributes)
	s.Attributes = slices.DeleteFunc(s.Attributes, func(a Attribute) bool { return a.Name == AttrOpen && a.Value.Bool() })
	s.Unmarked = n == len(s.Attributes)
}

// AddMarks adds to the attributes of l what OTLP has no field for: its place in the
// source, and which attributes are durations.
func (l *Log) AddMarks() {
	l.Attributes = addPlace(l.Attributes, &l.Metadata)
	var names []string
	for i := range l.Attributes {
		if l.Attributes[i].Encoding == Duration {
			names = append(names, l.Attributes[i].Name)
		}
	}
	if names != nil {
		list := format.StringValue(string(jsontext.AppendStrings(nil, names)))
		l.Attributes = append(l.Attributes, Attribute{Name: mapping.AttrDurations, Value: list, Encoding: JSON})
	}
}

// TakeMarks takes from the attributes of l, which was read from OTLP, what AddMarks added.
func (l *Log) TakeMarks() {
	l.takeDurations()
	l.takePlace()
}

// addPlace adds the place in the source to attributes that do not name one: log/slog
// has it beside its attributes.
func addPlace(attrs []Attribute, md *format.Metadata) []Attribute {
	if !md.File.Valid || slices.ContainsFunc(attrs, func(a Attribute) bool { return a.Name == codeFile || a.Name == codeLine }) {
		return attrs
	}
	attrs = append(attrs, Attribute{Name: codeFile, Value: format.StringValue(md.File.Value)})
	if md.Line.Valid {
		attrs = append(attrs, Attribute{Name: codeLine, Value: format.I64Value(int64(md.Line.Value))})
	}
	return attrs
}

// takePlace moves the place in the source to the metadata, if the attributes name one
// place and nothing else.
func (l *Log) takePlace() {
	file, line := -1, -1
	for i := range l.Attributes {
		a := &l.Attributes[i]
		switch a.Name {
		case codeFile:
			if file >= 0 || a.Encoding != Native || a.Value.Kind() != format.KindString {
				return
			}
			file = i
		case codeLine:
			n, ok := a.Value.I64()
			if line >= 0 || !ok || a.Encoding != Native || n < 0 || n > math.MaxUint32 {
				return
			}
			line = i
		}
	}
	if file < 0 {
		return
	}
	l.Metadata.File = format.Some(l.Attributes[file].Value.Text())
	if line >= 0 {
		n, _ := l.Attributes[line].Value.I64()
		l.Metadata.Line = format.Some(uint32(n))
	}
	l.Attributes = slices.DeleteFunc(l.Attributes, func(a Attribute) bool { return a.Name == codeFile || a.Name == codeLine })
}

func (l *Log) takeDurations() {
	at := slices.IndexFunc(l.Attributes, func(a Attribute) bool { return a.Name == mapping.AttrDurations && a.Encoding == JSON })
	if at < 0 {
		return
	}
	names := Names(l.Attributes[at].Value)
	if len(names) == 0 {
		return
	}
	for i := range l.Attributes {
		a := &l.Attributes[i]
		if a.Encoding == Native && a.Value.Kind() == format.KindI64 && names[a.Name] {
			a.Encoding = Duration
		}
	}
	l.Attributes = slices.Delete(l.Attributes, at, at+1)
}

// SetTimes says when s began and ended, both in nanoseconds since 1970 as OTLP has them:
// an end of 0 means that it has not ended. The differences of times wrap around, as
// sums do.
func (s *Span) SetTimes(start, end uint64) {
	s.Start = int64(start)
	if s.Start == math.MinInt64 {
		s.Start++ // which stands for no time at all elsewhere
	}
	s.Duration = 0
	if s.Ended = end != 0; s.Ended {
		s.Duration = int64(end - uint64(s.Start))
	}
}

// Unify makes attributes of one name all be of one encoding, which an entry names by
// their name alone.
func (a Attributes) Unify() {
	if !slices.ContainsFunc(a, func(a Attribute) bool { return a.Encoding != Native }) {
		return
	}
	encodings := make(map[string]Encoding, len(a))
	mixed := false
	for i := range a {
		if e, twice := encodings[a[i].Name]; twice && e != a[i].Encoding {
			encodings[a[i].Name], mixed = AnyValue, true
		} else {
			encodings[a[i].Name] = a[i].Encoding
		}
	}
	if !mixed {
		return
	}
	for i := range a {
		if to := encodings[a[i].Name]; to == AnyValue && a[i].Encoding != to {
			v := a[i].Any()
			a[i].Value, a[i].Encoding = format.StringValue(string(AppendAnyValue(nil, &v))), to
		}
	}
}

// Clean returns s with U+FFFD for each byte that is not of UTF-8.
func Clean(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}
