package codec_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/otel/codec"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// A told is a Visitor that counts its calls.
type told struct{ spans, logs, groups int }

func (s *told) Span(int64, *[16]byte, *[8]byte, *[8]byte) { s.spans++ }
func (s *told) Log(int64, *[16]byte, *[8]byte)            { s.logs++ }
func (s *told) EndScope(codec.Head)                       { s.groups++ }
func (s *told) EndResource(codec.Head)                    { s.groups++ }

// TestWalkEndsAtItsLimit walks messages with a million empty parts. The limit is ten, so Walk must stop early.
func TestWalkEndsAtItsLimit(t *testing.T) {
	const n, most = 1 << 20, 10
	group := func(number byte, b []byte) []byte { // makes a length-delimited field of more than 2 MiB
		size := len(b)
		return append([]byte{number<<3 | 2, byte(size) | 0x80, byte(size>>7) | 0x80, byte(size>>14) | 0x80, byte(size >> 21)}, b...)
	}
	empty := bytes.Repeat([]byte{2<<3 | 2, 0}, n)
	objects := strings.Repeat("{},", n) + "{}"
	for _, tt := range []struct {
		name    string
		message string
		e       codec.Encoding
	}{
		{"resources", string(bytes.Repeat([]byte{1<<3 | 2, 0}, n)), codec.Protobuf},
		{"scopes", string(group(1, empty)), codec.Protobuf},
		{"records", string(group(1, group(2, empty))), codec.Protobuf},
		{"resources in JSON", `{"resourceLogs":[` + objects + `]}`, codec.JSON},
		{"scopes in JSON", `{"resourceLogs":[{"scopeLogs":[` + objects + `]}]}`, codec.JSON},
		{"records in JSON", `{"resourceLogs":[{"scopeLogs":[{"logRecords":[` + objects + `]}]}]}`, codec.JSON},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := codec.NewReader([]byte(tt.message), tt.e)
			r.Assume(codec.Logs)
			r.Limit(most)
			var s told
			end, err := r.Walk(0, int64(len(tt.message)), false, &s)
			if !errors.Is(err, codec.ErrMany) || end > 200 {
				t.Errorf("it ends at %d: %v", end, err)
			}
			if n := s.logs + s.groups; s.spans > 0 || n > most+2 { // the groups that contain the parts count as well
				t.Errorf("it tells of %d spans and %d others", s.spans, n)
			}
			r.Limit(n + 3)
			expect.Is(t, expect.Err(r.Walk(0, int64(len(tt.message)), false, new(told))), nil, "with room for all")
		})
	}
}

// TestSignalIsToldWithinTheLimit has a span after more empty records than the limit allows. Walk must not search
// that far to find the signal.
func TestSignalIsToldWithinTheLimit(t *testing.T) {
	span := []byte{2<<3 | 2, 5, 2<<3 | 2, 3, 'a', 'b', 'c'} // a link, whose span id shows the signal
	records := append(bytes.Repeat([]byte{2<<3 | 2, 0}, 20), span...)
	scope := append([]byte{2<<3 | 2, byte(len(records))}, records...)
	message := append([]byte{1<<3 | 2, byte(len(scope))}, scope...)
	for most, spans := range map[int]int{10: 0, 100: 21} {
		r := codec.NewReader(message, codec.Protobuf)
		r.Assume(codec.Logs)
		r.Limit(most)
		var s told
		_, err := r.Walk(0, int64(len(message)), false, &s)
		if s.spans != spans || (err == nil) != (spans > 0) {
			t.Errorf("with %d allowed: %d spans, %d log records, %v", most, s.spans, s.logs, err)
		}
	}
}
