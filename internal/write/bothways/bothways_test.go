package bothways_test

import (
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/text/notice"
	"github.com/entrace-go/entrace/internal/write/bothways"
	"github.com/entrace-go/entrace/recorder"
)

// TestFirstRecordOfBothWaysIsTold checks that a record which comes in both ways is reported, even if it is
// the only record, and in either order. It is reported once for a recorder, and not if the ways use
// different recorders.
func TestFirstRecordOfBothWaysIsTold(t *testing.T) {
	told := 0
	notice.SetErrorHandler(func(error) { told++ })
	t.Cleanup(func() { notice.SetErrorHandler(nil) })
	span := [8]byte{1}
	for _, ways := range [][2]func(*recorder.Recorder, [8]byte, int64, string){{bothways.Slog, bothways.OTel}, {bothways.OTel, bothways.Slog}} {
		bothways.Reset()
		a, b := recorder.Stream(&recorder.Options{}), recorder.Stream(&recorder.Options{})
		told = 0
		ways[0](a, span, 7, "hello")
		ways[1](b, span, 7, "hello")
		expect.Equal(t, told, 0, "times that records of two recorders are told of")
		for range 2 {
			ways[0](a, span, 8, "hello")
			ways[1](a, span, 8, "hello")
		}
		expect.Equal(t, told, 1, "times that it was told")
		for _, r := range []*recorder.Recorder{a, b} {
			expect.OK(t, r.Close(t.Context()))
		}
	}
	bothways.Reset()
	r := recorder.Stream(&recorder.Options{})
	told = 0
	bothways.Slog(r, span, 9, "the only one")
	bothways.OTel(r, span, 9, "the only one")
	expect.Equal(t, told, 1, "times that the first record was told of")
	if n := testing.AllocsPerRun(100, func() { bothways.Slog(r, span, 10, "x"); bothways.OTel(r, span, 11, "x") }); n > 0 {
		t.Errorf("two records take %v allocations", n)
	}
	expect.OK(t, r.Close(t.Context()))
}
