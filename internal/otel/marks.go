package otel

import (
	"math"
	"slices"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/text/jsontext"
)

// Some data has no field in OTLP. AddMarks adds this data as attributes, and TakeMarks removes the attributes
// again.

const (
	codeFile = "code.file.path"
	codeLine = "code.line.number"
)

// AddMarks adds attributes to s for data for which OTLP has no field: the source position of s, and that s has
// not ended.
func (s *Span) AddMarks() {
	s.Attributes = addPlace(s.Attributes, &s.Metadata)
	if !s.Ended && !s.Unmarked {
		s.Attributes.Add(AttrOpen, format.BoolValue(true))
	}
}

// TakeMarks removes from s, which was read from OTLP, the attributes that AddMarks added. The source position
// stays, because a span has it both as attributes and in its metadata.
func (s *Span) TakeMarks() {
	if s.Unmarked = !s.Ended; !s.Unmarked {
		return
	}
	n := len(s.Attributes)
	s.Attributes = slices.DeleteFunc(s.Attributes, func(a Attribute) bool { return a.Name == AttrOpen && a.Value.Bool() })
	s.Unmarked = n == len(s.Attributes)
}

// AddMarks adds attributes to l for data for which OTLP has no field: the source position of l, and which
// attributes are durations.
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

// TakeMarks removes from l, which was read from OTLP, the attributes that AddMarks added.
func (l *Log) TakeMarks() {
	l.takeDurations()
	l.takePlace()
}

// addPlace adds attributes for the source position, unless the attributes already have one. log/slog does not
// store the position as an attribute.
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

// takePlace moves the source position from the attributes to the metadata. It does nothing if the attributes
// have several positions or an invalid position.
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

// SetTimes sets the start and the end of s, in nanoseconds since 1970 as in OTLP. If end is 0, s has not ended.
// If the difference of the times is too large, the duration wraps around; adding it to the start wraps back.
func (s *Span) SetTimes(start, end uint64) {
	s.Start = int64(start)
	if s.Start == math.MinInt64 {
		s.Start++ // other packages use MinInt64 for an unknown time
	}
	s.Duration = 0
	if s.Ended = end != 0; s.Ended {
		s.Duration = int64(end - uint64(s.Start))
	}
}

// Unify gives all attributes with the same name the same encoding, because an entry stores
// encodings by name.
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
