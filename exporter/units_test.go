package exporter_test

import (
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/internal/text/notice"
	"github.com/entrace-go/entrace/internal/write/setup"
	"github.com/entrace-go/entrace/recorder"
)

// TestUnits reads sizes and times from the environment, with a unit and without.
func TestUnits(t *testing.T) {
	for _, tt := range []struct {
		size, age string
		wantSize  int64
		wantAge   time.Duration
		told      string // part of the report; "": nothing is reported
	}{
		{"1000000", "300000", 1e6, 5 * time.Minute, ""},
		{"10MB", "5m", 1e7, 5 * time.Minute, ""},
		{"64MiB", "1m30s", 64 << 20, 90 * time.Second, ""},
		{"64 MiB", "7d", 64 << 20, 7 * 24 * time.Hour, ""},
		{"much", "", 256 << 20, 0, `OTEL_EXPORTER_ENTRACE_MAX_FILE_SIZE="much" is ignored: not a size such as`},
		{"0", "0", 0, 0, ""},
		{"-1", "", 256 << 20, 0, "MAX_FILE_SIZE"},
		{"", "soon", 256 << 20, 0, `OTEL_EXPORTER_ENTRACE_MAX_AGE="soon" is ignored: must be milliseconds, or a duration such as 5s`},
		{"", "-5s", 256 << 20, 0, "MAX_AGE"},
		{"", "99999999999999999999", 256 << 20, 0, "out of range"},
	} {
		t.Setenv("OTEL_EXPORTER_ENTRACE_MAX_FILE_SIZE", tt.size)
		t.Setenv("OTEL_EXPORTER_ENTRACE_MAX_AGE", tt.age)
		var told []string
		notice.SetErrorHandler(func(err error) { told = append(told, err.Error()) })
		o := setup.Resolve[exporter.Option]().Recording
		if o.MaxFileSize != tt.wantSize || o.MaxFileAge != tt.wantAge {
			t.Errorf("%q, %q: %d bytes, %v", tt.size, tt.age, o.MaxFileSize, o.MaxFileAge)
		}
		if got := strings.Join(told, "\n"); (tt.told == "") != (got == "") || !strings.Contains(got, tt.told) {
			t.Errorf("%q, %q: it reported %q, want %q", tt.size, tt.age, got, tt.told)
		}
	}
}

// TestBounds: an option beats the environment. If an option sets MaxFileSize, MaxFileAge or
// KeepFiles, bounds that are zero in the option are off.
func TestBounds(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_ENTRACE_KEEP", "7")
	t.Setenv("OTEL_EXPORTER_ENTRACE_KEEP_BYTES", "1MB")
	for i, tt := range []struct {
		options []exporter.Option
		files   int
		bytes   int64
	}{
		{nil, 7, 1e6},
		{[]exporter.Option{exporter.WithRecorderOptions(recorder.Options{KeepBytes: 5})}, 7, 5},
		{[]exporter.Option{exporter.WithRecorderOptions(recorder.Options{MaxFileSize: 1, MaxFileAge: 2, KeepFiles: 3})}, 3, 0},
		{[]exporter.Option{exporter.WithRecorderOptions(recorder.Options{MaxFileSize: 1, KeepBytes: 5})}, 0, 5},
	} {
		if o := setup.Resolve(tt.options...).Recording; o.KeepFiles != tt.files || o.KeepBytes != tt.bytes {
			t.Errorf("%d: it keeps %d files and %d bytes, want %d and %d", i, o.KeepFiles, o.KeepBytes, tt.files, tt.bytes)
		}
	}
}
