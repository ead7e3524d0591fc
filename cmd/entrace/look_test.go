package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/recorder"
)

// TestSelect: the commands that look and those that write take what a query selects.
func TestSelect(t *testing.T) {
	t.Chdir(t.TempDir())
	rec, err := recorder.Create("app.et", nil)
	must(t, err)
	requests(t, rec)
	must(t, rec.Close(t.Context()))
	const bob = `.user = "bob"`
	shape := func(args ...string) string {
		out := fine(t, nil, args...)
		var names []string
		for line := range strings.Lines(out) {
			for _, name := range []string{"GET /cart", "loaded", "first line", "resource"} {
				if strings.Contains(line, name) {
					names = append(names, name)
				}
			}
		}
		return strings.Join(names, ", ")
	}
	expect := func(got, want string, what ...string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %s; want %s", strings.Join(what, " "), got, want)
		}
	}
	expect(shape("tree", "app.et", "-q", bob), "resource, GET /cart", "tree -q")
	expect(shape("tree", "app.et", "-q", bob, "--descendants"), "resource, GET /cart, loaded, first line", "tree --descendants")
	expect(shape("tail", "app.et", "-q", bob), "GET /cart", "tail -q")
	expect(shape("cat", "app.et", "-q", `message contains "loaded"`), "loaded, loaded, loaded", "cat -q")
	for _, to := range []string{"et", "otlp"} {
		fine(t, nil, "convert", "app.et", "part."+to, "--to", to, "-q", bob)
		expect(shape("tree", "part."+to, "--from", to), "resource, GET /cart", "convert -q to "+to)
	}
	fine(t, nil, "merge", "app.et", "-o", "merged.et", "-q", bob, "--descendants")
	expect(shape("tree", "merged.et"), "resource, GET /cart, loaded, first line", "merge --descendants")
	if out := fine(t, nil, "tree", "merged.et"); !strings.HasPrefix(out, "merged.et ended: ") || strings.Contains(out, "not ended") {
		t.Errorf("of a part the tree is\n%s", out)
	}
	var all struct{ Spans, Logs int }
	must(t, json.Unmarshal([]byte(fine(t, nil, "info", "--json", "app.et", "-q", "level = error")), &all))
	if all.Spans != 1 || all.Logs != 1 {
		t.Errorf("info -q counts %+v", all)
	}
	var row struct {
		Name  string
		Depth int
	}
	lines := strings.Split(fine(t, nil, "tree", "--json", "app.et", "-q", bob), "\n")
	must(t, json.Unmarshal([]byte(lines[1]), &row))
	if len(lines) != 3 || row.Name != "GET /cart" || row.Depth != 2 {
		t.Errorf("tree --json: %q", lines)
	}

	// A clock that was late is right in what is written.
	first := func(file string) string {
		return fine(t, nil, "grep", "--limit", "1", "--time", "utc", `name = "GET /cart"`, file)[:15]
	}
	fine(t, nil, "merge", "app.et", "-o", "late.et", "--clock", "app.et=+90m")
	was, err := time.Parse("15:04:05.000000", first("app.et"))
	must(t, err)
	if got := was.Add(90 * time.Minute).Format("15:04:05.000000"); first("late.et") != got {
		t.Errorf("with --clock it is %s, want %s", first("late.et"), got)
	}

	// What is compressed is opened by whoever looks, and converted.
	plain, err := os.ReadFile("app.et")
	must(t, err)
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err = w.Write(plain)
	must(t, err)
	must(t, w.Close())
	must(t, os.WriteFile("app.et.gz", b.Bytes(), 0o600))
	fine(t, nil, "convert", "app.et.gz", "again.et")
	for _, command := range []string{"tree", "tail", "cat"} {
		expect(shape(command, "app.et.gz"), shape(command, "app.et"), command, "of a compressed file")
		expect(shape(command, "again.et"), shape(command, "app.et"), command, "of one that was compressed")
	}
	for _, args := range []string{"tree app.et -q count()", "tail --raw app.et -q x", "tree app.et --max-temp much", "convert app.et x.et -q (", "cat app.et -q count()"} {
		if code, _, errs := entrace(t, nil, strings.Fields(args)...); code != exitUsage || errs == "" {
			t.Errorf("%s: exit %d, %s", args, code, errs)
		}
	}
}

// TestTailRows follows what a query selects, over files that rotate, each row once.
func TestTailRows(t *testing.T) {
	t.Chdir(t.TempDir())
	rec, err := recorder.Create("app.et", &recorder.Options{MaxFileEntries: 30})
	must(t, err)
	write := func(from, to int) {
		for i := from; i < to; i++ {
			for _, level := range []format.Level{format.LevelInfo, format.LevelError} {
				e := &format.TraceEntry{Message: format.Some(fmt.Sprintf("%s %d.", level, i)), Metadata: format.Metadata{Name: "event", Level: level}}
				must(t, rec.Log(format.SpanRef{}, e))
			}
			must(t, rec.Flush(t.Context()))
			time.Sleep(5 * time.Millisecond) // so that it sees each of the files
		}
	}
	write(0, 5)
	var out lockedBuffer
	done := make(chan int)
	go func() {
		done <- run(t.Context(), []string{"tail", "-f", "-n", "2", "-q", "level = error", filepath.Join(".", "app.et")}, nil, &out, io.Discard)
	}()
	for !strings.Contains(out.String(), " 4.") {
		time.Sleep(time.Millisecond)
	}
	write(5, 12)
	for !strings.Contains(out.String(), " 11.") {
		time.Sleep(time.Millisecond)
	}
	must(t, rec.Close(t.Context()))
	if code := <-done; code != exitFine {
		t.Errorf("exit %d", code)
	}
	got := out.String()
	if strings.Contains(got, "INFO") || strings.Contains(got, " 2.") {
		t.Errorf("it prints what was not asked for:\n%s", got)
	}
	for i := 3; i < 12; i++ {
		if n := strings.Count(got, fmt.Sprintf(" %d.\n", i)); n != 1 {
			t.Errorf("record %d comes %d times:\n%s", i, n, got)
		}
	}
}

// TestDatesAreInTheZoneOfTheFlag: every command that prints a date does so in local time, or with
// --time utc in UTC.
func TestDatesAreInTheZoneOfTheFlag(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, sampleTrace(t, "app.et").Close(t.Context())) // its goroutine looks at the zone
	was := time.Local
	t.Cleanup(func() { time.Local = was })
	time.Local = time.FixedZone("east", 2*60*60)
	for _, args := range [][]string{
		{"stats", "--every", "1h", "app.et"},
		{"stats", "-q", `{} | count() by(bucket(start, 1h))`, "app.et"},
		{"stats", "-q", `{ name = "GET /cart" } | select(start)`, "app.et"},
		{"info", "app.et"},
		{"top", "app.et"},
	} {
		for style, want := range map[string]string{"local": "2026-01-02T05:", "none": "2026-01-02T05:", "utc": "2026-01-02T03:"} {
			_, out, _ := entrace(t, nil, append(args, "--time", style)...)
			if zone := map[bool]string{true: "Z", false: "+02:00"}[style == "utc"]; !strings.Contains(out, want) || !strings.Contains(out, zone) {
				t.Errorf("%q with --time %s has no %s…%s:\n%s", args, style, want, zone, out)
			}
		}
	}
	for _, format := range []string{"--json", "--csv"} { // for programs: nanoseconds
		if out := fine(t, nil, "stats", format, "--every", "1h", "app.et"); strings.Contains(out, "+02:00") {
			t.Errorf("%s has a zone:\n%s", format, out)
		}
	}
	if out := fine(t, nil, "info", "--json", "app.et"); !strings.Contains(out, `"first_time": "2026-01-02T03:04:05.001000006Z"`) {
		t.Errorf("info --json is\n%s", out)
	}
}
