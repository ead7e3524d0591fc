package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/querytest"
	"github.com/entrace-go/entrace/recorder"
)

// TestGrepCommand prints rows as lines, as a tree and as JSON, and counts them.
func TestGrepCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	rec, err := recorder.Create("app.et", nil)
	must(t, err)
	requests(t, rec)
	must(t, rec.Close(t.Context()))
	lines := func(args ...string) []string {
		out := fine(t, nil, append([]string{"grep", "--time", "none"}, args...)...)
		return strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	}
	starts := func(what string, got []string, want ...string) {
		t.Helper()
		if !slices.EqualFunc(got, want, strings.HasPrefix) {
			t.Errorf("%s prints\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	starts("a filter", lines("kind = internal and duration >= 0ns and .user = \"eve\"", "app.et"), "GET /cart")
	starts("words", lines("broke", "app.et"), "ERROR GET /cart")
	starts("a comparison", lines(`.user = "bob"`, "app.et"), "ERROR GET /cart")
	starts("a structure", lines(`{ .user = "bob" } >> {}`, "app.et"), "INFO loaded", "ERROR first line")
	starts("--logs", lines("--logs", `.user = "bob"`, "app.et"), "ERROR GET /cart", "INFO loaded", "ERROR first line")
	starts("-A", lines("-A", "1", `.user = "eve"`, "app.et"), "GET /cart", "INFO loaded")
	starts("--limit", lines("--limit", "1", `name = "GET /cart"`, "app.et"), "GET /cart")
	starts("--tree", lines("--tree", `.user = "bob"`, "app.et"), "└─ unknown_service:"+filepath.Base(os.Args[0])+" resource", "   └─ ERROR GET /cart")
	if got := fine(t, nil, "grep", "--count", `name = "GET /cart"`, "app.et"); got != "3\n" {
		t.Errorf("--count prints %q", got)
	}
	b, err := os.ReadFile("app.et")
	must(t, err)
	must(t, os.WriteFile("again.et", b, 0o600))
	code, got, errs := entrace(t, nil, "grep", "--count", "--by-file", "level = error", "app.et", "again.et")
	if code != exitFine || got != "app.et:2\nagain.et:0\n" || errs != "entrace: 8 rows are in several files, shown once\n" {
		t.Errorf("--by-file prints %q, and %q", got, errs)
	}
	out := fine(t, b, "grep", "--json", `.user = "bob"`, "-")
	var row map[string]any
	must(t, json.Unmarshal([]byte(out), &row))
	attributes, _ := row["attributes"].(map[string]any)
	if row["file"] != stdinName || row["role"] != "span" || row["status"] != "error" || attributes["user"] != "bob" || attributes["http.response.status_code"] != 500.0 || row["message"] != nil {
		t.Errorf("--json prints %s", out)
	}
	var keys []string
	for _, m := range regexp.MustCompile(`"(\w+)":`).FindAllStringSubmatch(out[:strings.Index(out, `"attributes"`)], -1) {
		keys = append(keys, m[1])
	}
	if got := strings.Join(keys, " "); got != "file id role service name message level time_unix_nano duration_nano self_nano open kind status status_description target source trace_id span_id parent_span_id parent depth" {
		t.Errorf("the keys are %s", got)
	}
	for _, x := range []struct {
		args string
		code int
		errs string
	}{
		{"grep nothing app.et", 1, ""},
		{"grep error app.et", 0, ""},
		{"grep levl=error app.et", 2, "entrace: try 'level=error'\n"},
		{"grep user=bob app.et", 0, ""},
		{"grep .http.response.status_code= app.et", 2, "entrace: try '.http.response.status_code= 200'\n"},
		{"stats -q {name=} app.et", 2, "entrace: try '{name= \"GET /cart\"}'\n"},
		{"grep .none= app.et", 2, "entrace: try '.none != nil'\n"},
		{"grep .none= missing.et", 2, "missing.et"},
		{"grep user=nobody app.et", 1, "entrace: try '\"user=nobody\"'\n"},
		{"grep .usr=bob app.et", 1, "entrace: try '.user=bob'\n"},
		{"grep x missing.et", 2, "missing.et"},
		{"grep", 2, "wants"},
		{"grep --since yesterday x app.et", 2, "is no time"},
		{"grep --clock x y app.et", 2, "--clock"},
		{"check -q level=error app.et", 1, "2 rows, expected none"},
		{"check -q level=error --expect 2 app.et", 0, ""},
		{"check -q level=error --expect >=3 app.et", 1, "2 rows"},
		{"check -q level=error --expect few app.et", 2, "--expect"},
		{"check -q {user=1} app.et", 0, `try '{user="1"}'`},
		{"check -q {levl=error} app.et", 2, "try '{level=error}'"},
		{"check app.et", 2, "-q"},
		{"grep --tree --json x app.et", 2, "--tree and --json"},
		{"grep --limit -1 x app.et", 2, "--limit is -1"},
		{"grep -A -1 x app.et", 2, "--after is -1"},
		{"grep -B -2 x app.et", 2, "--before is -2"},
		{"check --limit -1 -q x app.et", 2, "--limit is -1"},
		{"stats --csv --json app.et", 2, "--csv and --json"},
		{"stats --every 0.5 app.et", 2, "every"},
		{"stats --every 0s app.et", 2, "--every is 0s"},
		{"stats --every -1s app.et", 2, "--every is -1s"},
		{"stats --every 1s --histogram app.et", 2, "--histogram"},
	} {
		code, _, errs := entrace(t, nil, strings.Fields(x.args)...)
		if code != x.code || !strings.Contains(errs, x.errs) {
			t.Errorf("%s: exit %d, %s; want %d and %q", x.args, code, errs, x.code, x.errs)
		}
	}
	must(t, os.WriteFile("cut.et", b[:len(b)-20], 0o600))
	if code, _, errs := entrace(t, nil, "check", "-q", "nothing", "cut.et"); code != 2 || errs == "" {
		t.Errorf("check of a file that was cut: exit %d, %s", code, errs)
	}
	if code, _, errs := entrace(t, nil, "check", "-q", "nothing", "--allow-partial", "cut.et"); code != 0 {
		t.Errorf("check --allow-partial: exit %d, %s", code, errs)
	}
}

// TestStatsCommand prints tables.
func TestStatsCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	rec, err := recorder.Create("app.et", nil)
	must(t, err)
	requests(t, rec)
	must(t, rec.Close(t.Context()))
	out := fine(t, nil, "stats", "app.et")
	head, rest, _ := strings.Cut(out, "\n")
	if got := strings.Join(strings.Fields(head), " "); got != "service name count errors rate/s p50 p95 p99 max total self" {
		t.Errorf("the columns are %s", got)
	}
	if got := strings.Fields(rest); len(got) < 5 || strings.Join(got[1:5], " ") != "GET /cart 3 1" {
		t.Errorf("the table is\n%s", out)
	}
	if out = fine(t, nil, "stats", "app.et", "-q", "level = error | count() by(.user)", "--csv"); out != ".user,count()\n,1\nbob,1\n" {
		t.Errorf("--csv prints %q", out)
	}
	if out = fine(t, nil, "stats", "app.et", "-q", "{} | count()", "--json"); out != "{\"count()\":7}\n" {
		t.Errorf("--json prints %q", out)
	}
	if out = fine(t, nil, "stats", "app.et", "--histogram"); strings.Count(out, "█") < 50 {
		t.Errorf("--histogram prints\n%s", out)
	}
	if code, _, errs := entrace(t, nil, "stats", "app.et", "--sort", "color"); code != exitUsage || !strings.Contains(errs, "its columns are service, name") {
		t.Errorf("exit %d, %s", code, errs)
	}
}

// shopFile returns the bytes of an ET with the entries of the cases.
func shopFile(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := format.NewWriter(&b, format.V2, format.ET, nil)
	must(t, err)
	for _, e := range querytest.Entries() {
		_, err := w.Write(e)
		must(t, err)
	}
	must(t, w.Close())
	return b.Bytes()
}

// TestGrepCases: grep selects what package query does.
func TestGrepCases(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, os.WriteFile("shop.et", shopFile(t), 0o600))
	for _, c := range querytest.Cases {
		code, out, errs := entrace(t, nil, "grep", "--json", c.Query, "shop.et")
		if want := exitFine; len(c.IDs) == 0 {
			want = exitData
			if code != want || out != "" {
				t.Errorf("%s: exit %d, %s", c.Query, code, out)
			}
			continue
		} else if code != want {
			t.Errorf("%s: exit %d, %s", c.Query, code, errs)
		}
		var got []uint32
		for line := range strings.Lines(out) {
			var row struct{ ID uint32 }
			must(t, json.Unmarshal([]byte(line), &row))
			got = append(got, row.ID)
		}
		slices.Sort(got)
		if !slices.Equal(got, c.IDs) {
			t.Errorf("%s prints %v, want %v", c.Query, got, c.IDs)
		}
	}
}

// TestGrepOthers looks for entries that ENTRACE's own crate wrote, which are neither spans nor log
// records of OpenTelemetry.
func TestGrepOthers(t *testing.T) {
	const name = "../../format/testdata/v2.et"
	if got := fine(t, nil, "grep", "--count", `"step 77"`, name); got != "1\n" {
		t.Errorf("free text finds %q", got)
	}
	if got := fine(t, nil, "grep", "--count", "level = debug .square = 49", name); got != "1\n" {
		t.Errorf("a filter finds %q", got)
	}
	if got := fine(t, nil, "grep", "-A", "1", `"step 77"`, name); strings.Count(got, "step") < 2 {
		t.Errorf("with the row behind it:\n%s", got)
	}
}

// TestInterruptedCommands say so, and exit as shells expect.
func TestInterruptedCommands(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, os.WriteFile("app.et", shopFile(t), 0o600))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupt signal received"))
	must(t, os.WriteFile("x.lua", []byte("while true do end"), 0o600))
	for _, args := range []string{"grep x app.et", "stats app.et", "top app.et", "lua x.lua app.et"} {
		var out, errs bytes.Buffer
		code := run(ctx, strings.Fields(args), nil, &out, &errs)
		if code != 130 || errs.String() != "entrace: interrupted\n" {
			t.Errorf("%s: exit %d, %s", args, code, errs.String())
		}
	}
}

// TestMergeReadsAFileOnce: a hard link of an input does not double its spans.
func TestMergeReadsAFileOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, os.WriteFile("a.et", shopFile(t), 0o600))
	must(t, os.Link("a.et", "b.et"))
	code, _, errs := entrace(t, nil, "merge", "a.et", "b.et", "-o", "c.et")
	if code != 0 || !strings.Contains(errs, "b.et is a file that is named before, and is read once") {
		t.Fatalf("merge: exit %d, %s", code, errs)
	}
	want := fine(t, nil, "grep", "--count", "", "a.et")
	if got := fine(t, nil, "grep", "--count", "", "c.et"); got != want {
		t.Errorf("the output has %s rows, want %s", got, want)
	}
}
