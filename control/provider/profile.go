package provider

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
	texts "github.com/entrace-go/entrace/internal/text"
)

// The labels of a stack with the ids of its span, in hexadecimal digits.
const (
	labelSpan  = "span_id"
	labelTrace = "trace_id"
)

// Limits of a profile.
const (
	maxProfileBytes = 32 << 20 // bytes after decompression
	maxLabels       = 32       // labels of a stack
	maxLabelName    = 128      // bytes
	maxLabelValue   = 1 << 10  // bytes
)

// A group holds the sum of all samples of a profile with the same stack and the same labels.
type group struct {
	locations []*profile.Location // innermost first
	labels    []label             // sorted by name, without labelSpan and labelTrace if they are in ref
	ref       format.SpanRef
	values    [2]int64 // the sums of the values of the samples
	key       string
}

func mostFirst(a, b *group) int {
	return cmp.Or(cmp.Compare(b.values[0], a.values[0]), cmp.Compare(a.key, b.key))
}

type label struct{ name, value string }

// parseProfile parses a profile of package runtime/pprof, and returns the groups of its samples in no
// particular order.
func parseProfile(data []byte) ([]*group, error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("decompress profile: %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(z, maxProfileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("decompress profile: %w", err)
	}
	if len(plain) > maxProfileBytes {
		return nil, fmt.Errorf("the profile is larger than %d bytes", maxProfileBytes)
	}
	return parsePlain(plain)
}

func parsePlain(plain []byte) ([]*group, error) {
	p, err := profile.ParseUncompressed(plain)
	if err == nil {
		err = p.CheckValid()
	}
	if err != nil {
		return nil, fmt.Errorf("parse profile: %w", err)
	}
	if len(p.SampleType) == 0 {
		return nil, errors.New("parse profile: the profile declares no sample type")
	}
	return groups(p), nil
}

// groups merges the samples of p that have the same stack and labels. The profile has a sample for each list of
// addresses and each label set. Several lists of addresses may have the same text.
func groups(p *profile.Profile) []*group {
	g := grouper{places: make(map[string]uint32), groups: make(map[string]*group)}
	numbers := make(map[*profile.Location]uint32, len(p.Location))
	for _, l := range p.Location {
		numbers[l] = g.locationNumber(l)
	}
	for _, s := range p.Sample {
		found := g.group(s, numbers)
		for i := range min(len(s.Value), len(found.values)) {
			found.values[i] += s.Value[i]
		}
	}
	return slices.Collect(maps.Values(g.groups))
}

type grouper struct {
	places map[string]uint32 // numbers of locations, by the text of their frames
	groups map[string]*group
	text   []byte
}

// locationNumber returns the number of a location. Two locations with the same text have the same number.
func (g *grouper) locationNumber(l *profile.Location) uint32 {
	g.text = g.text[:0]
	for i := range max(len(l.Line), 1) {
		g.text = appendFrame(g.text, l, i)
	}
	n, ok := g.places[string(g.text)]
	if !ok {
		n = uint32(len(g.places))
		g.places[string(g.text)] = n
	}
	return n
}

// group returns the group of s.
func (g *grouper) group(s *profile.Sample, numbers map[*profile.Location]uint32) *group {
	labels, ref := labelsOf(s)
	g.text = g.text[:0]
	// Each location has at least one frame, so the text of the stack does not show locations after the
	// first maxFrames.
	locations := s.Location[:min(len(s.Location), maxFrames)]
	g.text = binary.AppendUvarint(g.text, uint64(len(locations)))
	for _, l := range locations {
		g.text = binary.AppendUvarint(g.text, uint64(numbers[l]))
	}
	g.text = append(append(g.text, ref.TraceID[:]...), ref.SpanID[:]...)
	for _, l := range labels {
		for _, text := range []string{l.name, l.value} {
			g.text = binary.AppendUvarint(g.text, uint64(len(text)))
			g.text = append(g.text, text...)
		}
	}
	if found, ok := g.groups[string(g.text)]; ok {
		return found
	}
	made := &group{locations: s.Location, labels: labels, ref: ref, key: string(g.text)}
	g.groups[made.key] = made
	return made
}

// labelsOf returns the labels of s, sorted by name, and the span that the labels trace_id and span_id identify. If
// these two labels identify a span, they are not in the list.
func labelsOf(s *profile.Sample) ([]label, format.SpanRef) {
	if len(s.Label) == 0 {
		return nil, format.SpanRef{}
	}
	ref := spanRef(s.Label[labelTrace], s.Label[labelSpan])
	labels := make([]label, 0, len(s.Label))
	for name, values := range s.Label {
		if ref.IsValid() && (name == labelTrace || name == labelSpan) {
			continue
		}
		labels = append(labels, label{name, strings.Join(values, ",")})
	}
	slices.SortFunc(labels, func(a, b label) int { return cmp.Compare(a.name, b.name) })
	labels = labels[:min(len(labels), maxLabels)]
	for i := range labels {
		l := &labels[i]
		l.name, l.value = texts.Cut(l.name, maxLabelName), texts.Cut(l.value, maxLabelValue)
	}
	return labels, ref
}

// spanRef returns the span with the ids in the values of two labels, or the zero SpanRef if these are not
// valid ids.
func spanRef(trace, span []string) (ref format.SpanRef) {
	if len(trace) == 1 && len(span) == 1 {
		ref.TraceID, _ = wire.ParseID[[16]byte](trace[0])
		ref.SpanID, _ = wire.ParseID[[8]byte](span[0])
	}
	if !ref.IsValid() {
		return format.SpanRef{}
	}
	return ref
}

// attributes appends the stack and the labels of g to a.
func (g *group) attributes(a []format.Attribute) []format.Attribute {
	a = append(a, text("stack", g.stack()))
	for _, l := range g.labels {
		a = append(a, text("label."+l.name, l.value))
	}
	return a
}

// writeGroups writes an entry of provider p for each of the first most groups, and one entry for all other groups.
// The attributes of an entry come from values. Its message is the innermost function for which the function is
// returns true.
func writeGroups(
	ctx context.Context, s *control.Session, p control.Set, at time.Time, groups []*group, most int,
	is func(function string) bool, values func([2]int64) []format.Attribute,
) error {
	e := format.TraceEntry{Metadata: format.Metadata{Name: p.String(), Target: "runtime/pprof", Level: format.LevelDebug}}
	shown := groups[:min(len(groups), most)]
	for _, g := range shown {
		if err := ctx.Err(); err != nil {
			return err
		}
		e.Message = format.Some(g.function(is))
		e.Attributes = g.attributes(values(g.values))
		if err := s.Write(p, g.ref, at, &e); err != nil {
			return err
		}
	}
	rest := groups[len(shown):]
	if len(rest) == 0 {
		return nil
	}
	var sum [2]int64
	for _, g := range rest {
		sum[0] += g.values[0]
		sum[1] += g.values[1]
	}
	e.Message = format.Some(strconv.Itoa(len(rest)) + " more stacks")
	e.Attributes = append(values(sum), u64(attrLeftOut, uint64(len(rest))))
	return s.Write(p, format.SpanRef{}, at, &e)
}

// attrLeftOut is the name of an attribute: the number of stacks without an entry of their own.
const attrLeftOut = "left_out"
