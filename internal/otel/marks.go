package otel

import (
	"math"
	"slices"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/text/jsontext"
)

// OTLP has no field for some data. AddMarks stores it in attributes, and TakeMarks reads and removes these
// attributes.

const (
	codeFile = "code.file.path"
	codeLine = "code.line.number"
)

// AddMarks adds attributes for data for which OTLP has no field: the source position of s, and that s has not
// ended.
func (s *Span) AddMarks() {
	s.Attributes = addPlace(s.Attributes, &s.Metadata)
	if !s.Ended && !s.Unmarked {
		s.Attributes.Add(AttrOpen, format.BoolValue(true))
	}
}

// TakeMarks removes the attribute by which AddMarks marked an open span. s was read from OTLP. The source position
// remains in the attributes, because a span has the position both in its attributes and in its metadata.
func (s *Span) TakeMarks() {
	s.Unmarked = !s.Ended
	if !s.Unmarked {
		return
	}
	n := len(s.Attributes)
	s.Attributes = slices.DeleteFunc(s.Attributes, func(a Attribute) bool { return a.Name == AttrOpen && a.Value.Bool() })
	s.Unmarked = n == len(s.Attributes)
}

// AddMarks adds attributes for data for which OTLP has no field: the source position of l, and the names of the
// attributes that are durations.
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

// TakeMarks removes the attributes that AddMarks added, and sets the data that they hold. l was read from OTLP.
func (l *Log) TakeMarks() {
	l.takeDurations()
	l.takePlace()
}

// addPlace adds attributes with the source position, if attrs has none yet. log/slog stores the position only in the
// metadata.
func addPlace(attrs Attributes, md *format.Metadata) Attributes {
	if !md.File.Valid || slices.ContainsFunc(attrs, func(a Attribute) bool { return a.Name == codeFile || a.Name == codeLine }) {
		return attrs
	}
	attrs.Add(codeFile, format.StringValue(md.File.Value))
	if md.Line.Valid {
		attrs.Add(codeLine, format.I64Value(int64(md.Line.Value)))
	}
	return attrs
}

// takePlace moves the source position from the attributes to the metadata. It does nothing if the attributes have an
// invalid position, or more than one.
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

// SetTimes sets the start and the end of s, in nanoseconds since 1970 as in OTLP. An end of 0 means that s has not
// ended. If the difference is too large for an int64, Duration wraps around, but Start+Duration is still correct.
func (s *Span) SetTimes(start, end uint64) {
	s.Start = int64(start)
	if s.Start == math.MinInt64 {
		s.Start++ // other packages use MinInt64 for an unknown time
	}
	s.Duration = 0
	s.Ended = end != 0
	if s.Ended {
		s.Duration = int64(end - uint64(s.Start))
	}
}

// Unify gives attributes with the same name the same encoding, because an entry stores the encoding by name.
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
