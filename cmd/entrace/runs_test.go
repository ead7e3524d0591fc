package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/recorder"
)

// TestBriefRunsReadLittle overwrites all but the first and the last 32 KiB of a recording: runs --brief does not
// see it, so it reads at most 64 KiB of a file.
func TestBriefRunsReadLittle(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "app.et")
	rec, err := recorder.Create(name, nil)
	must(t, err)
	r := recording{rec}
	shop := r.resource("shop")
	for i := range 1000 {
		r.span(shop, named("GET /cart"), i+1, begun, time.Millisecond, "payload", strings.Repeat("x", 1000))
	}
	must(t, rec.Close(t.Context()))
	brief := fine(t, nil, "runs", "--brief", "--json", name)
	if !strings.Contains(brief, `"service":"shop"`) || !strings.Contains(brief, `"state":"ended"`) {
		t.Fatal(brief)
	}
	b := read(t, name)
	if len(b) < 1e6 {
		t.Fatalf("the recording has %d bytes", len(b))
	}
	middle := b[32<<10 : len(b)-32<<10]
	copy(middle, bytes.Repeat([]byte{0xff}, len(middle)))
	fi, err := os.Stat(name)
	must(t, err)
	must(t, os.WriteFile(name, b, 0o600))
	must(t, os.Chtimes(name, time.Time{}, fi.ModTime()))
	expect.Equal(t, fine(t, nil, "runs", "--brief", "--json", name), brief, "the middle was read")
	if all := fine(t, nil, "runs", "--json", name); !strings.Contains(all, `"state":"damaged`) {
		t.Errorf("the middle is not read: %s", all)
	}
}

func TestVersionText(t *testing.T) {
	t.Parallel()
	for want, x := range map[string]struct {
		version, revision string
		modified          bool
	}{
		"":                            {},
		"1.4.2":                       {version: "1.4.2"},
		"0123456789ab":                {revision: "0123456789abcdef"},
		"1.4.2 0123456789ab":          {version: "1.4.2", revision: "0123456789abcdef"},
		"1.4.2 0123456789ab modified": {version: "1.4.2", revision: "0123456789abcdef", modified: true},
		"0123456789ab modified":       {version: "v0.0.0-20260101120000-0123456789ab+dirty", revision: "0123456789abcdef", modified: true},
	} {
		expect.Equal(t, versionText(x.version, x.revision, x.modified), want, "the version")
	}
}
