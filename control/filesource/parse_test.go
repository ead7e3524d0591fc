package filesource

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/testkit/tracetest"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/internal/text/quantity"
)

var must = tracetest.Must

const ok = "dir: /t\n"

func lines(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

func TestParseErrors(t *testing.T) {
	const known = "cpu.profile, exec.trace, gc, goroutines, logs, process, runtime.metrics, sched, spans"
	const on = ok + "traces:\n- name: a\n  providers: [gc]\n  on: [{trigger: log}]\n"
	tests := []struct {
		name, text string
		want       []string
	}{
		// The document.
		{"empty", "", []string{`f: the file has no configuration`}},
		{"comments", "# a\n\n# b\n", []string{`f: the file has no configuration`}},
		{"null", "---\n", []string{`f: the file has no configuration`}},
		{"list", "- a\n", []string{`f:1:1: must be a mapping, found a list`}},
		{"scalar", "\n hello", []string{`f:2:2: must be a mapping, found text`}},
		{"two documents", ok + "---\ndir: b\n", []string{`f:2:1: unexpected second document: the file must have only one`}},
		{"empty second document", ok + "---\n", []string{`f:2:1: unexpected second document: the file must have only one`}},
		{"broken second document", ok + "---\n[", []string{`f:4:1: while parsing a flow node: did not find expected node content`}},
		{"syntax", ok + "keep: {\n", []string{`f:3:1: while parsing a flow node: did not find expected node content`}},
		{"tab", ok + "keep:\n\tfiles: 1\n", []string{`f:3:1: while scanning for the next token: found character that cannot start any token`}},
		{"NUL", "dir: é\x00\n", []string{`f:1:7: control character U+0000 is not allowed`}},
		{"escape", "dir: a\rid: \x1b\n", []string{`f:2:5: control character U+001B is not allowed`}},
		{"not UTF-8", ok + "id: \xff\n", []string{`f:2:5: is not UTF-8`}},
		{"UTF-16", "\xff\xfed\x00", []string{`f:1:1: is not UTF-8`}},
		{"unknown anchor", "dir: *a\n", []string{`f:1:6: unknown anchor 'a' referenced`}},
		{"deep", strings.Repeat("[", 100), []string{`f:1:65: while increasing flow level: exceeded max depth of 64`}},
		{"deep blocks", strings.Repeat("- ", 100), []string{`f:1:129: while increasing indent level: exceeded max depth of 64`}},
		{"too large", "dir: /t\n" + strings.Repeat("#", maxSize), []string{`f: is larger than 262144 bytes`}},
		{"text too long", ok + "id: " + strings.Repeat("x", maxText+1), []string{`f:2:5: id: is longer than 4096 bytes`}},

		// Keys.
		{"unknown at the root", ok + "rign: {}\n", []string{`f:2:1: unknown key "rign": known keys are id, dir, keep, ring, traces`}},
		{"unknown in keep", ok + "keep: {files: 1, filse: 2}\n", []string{`f:2:18: keep: unknown key "filse": known keys are files, bytes, age`}},
		{"unknown in ring", ok + "ring:\n  size: 1\n", []string{`f:3:3: ring: unknown key "size": known keys are bytes, persist, always, params`}},
		{
			"unknown in a trace", on + "  modus: x\n",
			[]string{`f:6:3: traces[0]: unknown key "modus": known keys are name, on, mode, window, scope, providers, every, per_hour, one_in, timeout, max_bytes, keep_if, params`},
		},
		{
			"unknown in on", ok + "traces: [{name: a, providers: [gc], on: [{triger: log}]}]",
			[]string{
				`f:2:42: traces[0].on[0].trigger: unknown trigger "": known triggers are api, signal, http, log, span, watchdog, panic, start, exit`,
				`f:2:43: traces[0].on[0]: unknown key "triger": known keys are trigger, key, level, longer_than, count, within`,
			},
		},
		{"unknown in keep_if", on + "  keep_if: {some: []}\n", []string{`f:6:13: traces[0].keep_if: unknown key "some": known keys are longest, any, all, else`}},
		{"unknown in longest", on + "  keep_if: {longest: [{than: 1s}]}\n", []string{`f:6:24: traces[0].keep_if.longest[0]: unknown key "than": known keys are longer_than, one_in`}},
		{"unknown and long", ok + strings.Repeat("é", 100) + ": 1", []string{`f:2:1: unknown key "` + strings.Repeat("é", 32) + `"…: known keys are id, dir, keep, ring, traces`}},
		{"unknown and cut in a character", ok + "a" + strings.Repeat("é", 100) + ": 1", []string{`f:2:1: unknown key "a` + strings.Repeat("é", 31) + `"…: known keys are id, dir, keep, ring, traces`}},
		{"unknown and empty", ok + "~: 1", []string{`f:2:1: unknown key "~": known keys are id, dir, keep, ring, traces`}},
		{"twice", ok + "id: a\n'dir': /u\n", []string{`f:3:1: key "dir" is used twice: first in line 1`}},
		{"twice in params", ok + "ring: {params: {gc.a: 1, gc.a: 2}}\n", []string{`f:2:26: ring.params: key "gc.a" is used twice: first in line 2`}},
		{"key is a list", ok + "? [a]\n: b\n", []string{`f:2:3: a key must be text, found a list`}},
		{"key is an alias", ok + "id: &a keep\n*a : {}\n", []string{`f:3:1: a key must be text, found an alias`}},
		{"key with a tag", ok + "!!str id: a\n", []string{`f:2:1: tags are not supported`}},
		{"key too long", ok + "\"" + strings.Repeat("a", 5000) + "\": a\n", []string{`f:2:1: is longer than 4096 bytes`}},
		{"merge", ok + "keep: &k {files: 1}\nring: {<<: *k}\n", []string{`f:3:8: ring: merge keys (<<) are not supported: copy the keys instead`}},

		// Kinds.
		{"list for text", "dir: [/t]\n", []string{`f:1:6: dir: must be text, found a list`}},
		{"mapping for text", "dir: {a: b}\n", []string{`f:1:6: dir: must be text, found a mapping`}},
		{"text for a mapping", ok + "keep: 50\n", []string{`f:2:7: keep: must be a mapping, found text`}},
		{"list for a mapping", ok + "ring: [64MiB]\n", []string{`f:2:7: ring: must be a mapping, found a list`}},
		{"mapping for a list", ok + "traces: {name: a}\n", []string{`f:2:9: traces: must be a list, found a mapping`}},
		{"text for a list", ok + "ring: {always: spans}\n", []string{`f:2:16: ring.always: must be a list, found text`}},
		{"text for a trace", ok + "traces: [a]\n", []string{`f:2:10: traces[0]: must be a mapping, found text`}},
		{"empty trace", ok + "traces:\n-\n", []string{`f:3:2: traces[0]: must be a mapping, found nothing`}},
		{"empty element", ok + "ring: {always: [gc, ~]}\n", []string{`f:2:21: ring.always[1]: must be text, found nothing`}},
		{"empty param", ok + "ring: {params: {gc.a: }}\n", []string{`f:2:23: ring.params.gc.a: must be text, found nothing`}},
		{"list for a param", ok + "ring: {params: {gc.a: [1]}}\n", []string{`f:2:23: ring.params.gc.a: must be text, found a list`}},
		{"list for a number", ok + "keep: {files: []}\n", []string{`f:2:15: keep.files: must be a whole number, found a list`}},
		{"list for a size", ok + "keep: {bytes: []}\n", []string{`f:2:15: keep.bytes: must be a size, found a list`}},
		{"list for a duration", ok + "keep: {age: []}\n", []string{`f:2:13: keep.age: must be a duration, found a list`}},
		{"list for a bool", ok + "ring: {persist: []}\n", []string{`f:2:17: ring.persist: must be true or false, found a list`}},
		{"tag", ok + "id: !!str 5\n", []string{`f:2:5: id: tags are not supported`}},
		{"tag on null", "dir: !!null ''\n", []string{`f:1:6: dir: tags are not supported`}},

		// Scalars.
		{"number", ok + "keep: {files: many}\n", []string{`f:2:15: keep.files: "many" is not a whole number`}},
		{"number too large", ok + "keep: {files: 99999999999999999999}\n", []string{`f:2:15: keep.files: "99999999999999999999" is out of range`}},
		{"size", ok + "keep: {bytes: 2 giga}\n", []string{`f:2:15: keep.bytes: "2 giga" is not a size such as 1000, 10KB, 64MiB or 2GiB`}},
		{"size too large", ok + "keep: {bytes: 8388608TiB}\n", []string{`f:2:15: keep.bytes: "8388608TiB" is out of range`}},
		{"duration", ok + "keep: {age: 1 week}\n", []string{`f:2:13: keep.age: "1 week" is not a duration such as 250ms, 1m30s, 72h or 7d`}},
		{"bool", ok + "ring: {persist: yes}\n", []string{`f:2:17: ring.persist: "yes" is neither true nor false`}},
		{
			"level", ok + "traces: [{name: a, providers: [gc], on: [{trigger: log, level: fatal}]}]",
			[]string{`f:2:64: traces[0].on[0].level: "fatal" is not a level: use trace, debug, info, warn, error, or one of them with an offset, such as error+2`},
		},
		{
			"provider", ok + "traces:\n  - name: a\n    providers: [gc]\n  - name: b\n    providers: [gcc, spans]\n",
			[]string{`f:6:17: traces[1].providers[0]: unknown provider "gcc": known providers are ` + known},
		},
		{"provider too long", ok + "ring: {always: [" + strings.Repeat("a", 100) + "]}", []string{`f:2:17: ring.always[0]: unknown provider "` + strings.Repeat("a", 64) + `": known providers are ` + known}},
		{"param", on + "  params: {gc.interval: 1, gcc.interval: 2}\n", []string{`f:6:28: traces[0].params: parameter "gcc.interval": unknown provider "gcc": known providers are ` + known}},
		{"param without a provider", ok + "ring: {params: {interval: 1}}\n", []string{`f:2:17: ring.params: parameter "interval" must have the form PROVIDER.NAME`}},
		{"param without a name", ok + "ring: {params: {gc.: 1}}\n", []string{`f:2:17: ring.params: parameter "gc." must have the form PROVIDER.NAME`}},
		{"param that is a provider", ok + "ring: {params: {cpu.profile: 1}}\n", []string{`f:2:17: ring.params: parameter "cpu.profile": unknown provider "cpu": known providers are ` + known}},

		{"param with a space", ok + "ring: {params: {\"gc.a\\n\": 1}}\n", []string{`f:2:17: ring.params: parameter "gc.a\n" must have the form PROVIDER.NAME`}},
		{"long anchor", "dir: *" + strings.Repeat("a", 300) + "\n", []string{`f:1:6: unknown anchor '` + strings.Repeat("a", 184)}},

		// What Validate finds.
		{"no dir", "id: a\n", []string{`f:1:1: dir: must not be empty`}},
		{"empty id", ok + "id: ''\n", []string{`f:2:5: id: must not be empty`}},
		{"negative", ok + "keep: {files: -1, age: -1d}\n", []string{`f:2:15: keep.files: must not be negative`, `f:2:24: keep.age: must not be negative`}},
		{"small ring", ok + "ring: {bytes: 1}\n", []string{`f:2:15: ring.bytes: must be 0 or at least 4194304`}},
		{"no ring", "ring: {bytes: 0}\n" + on, []string{`f:4:3: traces[0].mode: a snapshot needs a ring: ring.bytes is 0`}},
		{
			"no name", ok + "traces:\n- providers: [gc]\n",
			[]string{`f:3:3: traces[0].name: "" must be 1 to 64 letters, digits, '-', '_' and '.', and begin with a letter or digit`},
		},
		{"name twice", on + "- name: a\n  providers: [gc]", []string{`f:6:9: traces[1].name: "a" is used twice`}},
		{"no providers", ok + "traces:\n- name: a\n  providers: []\n- name: b\n", []string{`f:4:14: traces[0].providers: must name at least one provider`, `f:5:3: traces[1].providers: must name at least one provider`}},
		{"mode", on + "  mode: strem\n", []string{`f:6:9: traces[0].mode: must be snapshot or stream, not "strem"`}},
		{"keep_if", on + "  keep_if:\n    any: [a=b, c]\n    all: [d=e, =f]\n    else: -1\n", []string{`f:7:16: traces[0].keep_if.any[1]: must be name=value, not "c"`, `f:8:16: traces[0].keep_if.all[1]: must be name=value, not "=f"`, `f:9:11: traces[0].keep_if.else: must not be negative`}},
		{"mode of a null", ok + "traces: [{name: a, providers: [gc], mode: , timeout: 1s}]", []string{`f:2:54: traces[0].timeout: is only for streams`}},
		{"through an alias", ok + "traces:\n- {name: a, mode: stream, providers: &p [cpu.profile]}\n- {name: b, providers: *p}\n", []string{`f:4:24: traces[1].providers: must not contain cpu.profile, which is for streams`}},

		// Errors that follow from another problem are not reported.
		{"a broken ring is a ring", on + "ring: {bytes: x}\n", []string{`f:6:15: ring.bytes: "x" is not a size such as 1000, 10KB, 64MiB or 2GiB`}},
		{"a broken list", ok + "traces: [{name: a, providers: [gcc]}]", []string{`f:2:32: traces[0].providers[0]: unknown provider "gcc": known providers are ` + known}},
		{"a broken trigger", ok + "traces: [{name: a, providers: [gc], on: [{trigger: [span], longer_than: 1s, count: -1}]}]", []string{`f:2:52: traces[0].on[0].trigger: must be text, found a list`, `f:2:84: traces[0].on[0].count: must be from 0 to 10000`}},
		{"a broken mode", ok + "traces: [{name: '', providers: [gc], mode: [], timeout: 1s}]", []string{
			`f:2:17: traces[0].name: "" must be 1 to 64 letters, digits, '-', '_' and '.', and begin with a letter or digit`,
			`f:2:44: traces[0].mode: must be text, found a list`,
		}},
		{"unknown keys hide nothing", "kep: 1\nkeep: {files: -1}\n", []string{
			`f:1:1: unknown key "kep": known keys are id, dir, keep, ring, traces`,
			`f:1:1: dir: must not be empty`,
			`f:2:15: keep.files: must not be negative`,
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c, err := Parse("f", []byte(test.text))
			if got := lines(err); !reflect.DeepEqual(got, test.want) {
				t.Errorf("Parse(%.200q) says\n%s\nwant\n%s", test.text, strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
			if err != nil && c != nil {
				t.Errorf("Parse returned a configuration with an error")
			}
		})
	}
}

func TestParseErrorTypes(t *testing.T) {
	_, err := Parse("f", []byte(ok+"keep: {files: -1}\nring: {always: [gc, gcc]}\n"))
	e, is := errors.AsType[*Error](err)
	if !is || e.File != "f" || e.Line != 2 || e.Column != 15 || e.Path != "keep.files" {
		t.Errorf("got %#v, want the place of keep.files", e)
	}
	if f, is := errors.AsType[*control.FieldError](err); !is || f.Path != "keep.files" {
		t.Errorf("got field error %#v, want that of keep.files", f)
	}
	if !strings.Contains(err.Error(), `ring.always[1]: unknown provider "gcc"`) {
		t.Errorf("got %v, want the unknown provider gcc", err)
	}
	if got := (&Error{Line: 1, Column: 2, Err: errors.New("x")}).Error(); got != "1:2: x" {
		t.Errorf("without a file got %q, want %q", got, "1:2: x")
	}
}

func TestParseManyErrors(t *testing.T) {
	for n, want := range map[int]int{19: 19, 20: 20, 21: 21, 900: 21, 5000: 21} {
		var text strings.Builder
		text.WriteString(ok)
		for i := range n {
			fmt.Fprintf(&text, "k%d: 1\n", i)
		}
		_, err := Parse("f", []byte(text.String()))
		got := lines(err)
		if len(got) != want {
			t.Errorf("of %d problems Parse told %d, want %d", n, len(got), want)
		}
		if last := got[len(got)-1]; n > 20 && last != fmt.Sprintf("f: and %d more", n-20) {
			t.Errorf("of %d problems the last is %q", n, last)
		}
	}
}

// TestParseAliases has small files whose aliases expand to very many values.
func TestParseAliases(t *testing.T) {
	many := func(s string, n int) string { return "[" + strings.Repeat(s+", ", n) + "]" }
	for name, text := range map[string]string{
		"values":       ok + "ring: {always: &a " + many("gc", 1000) + "}\ntraces: [&t {name: a, providers: *a}, " + strings.Repeat("*t, ", 1000) + "]",
		"unknown keys": ok + "keep: &k {" + strings.Repeat("a: b, ", 5000) + "}\ntraces: " + many("*k", 5000),
		"laughs": "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b " + many("*a", 9) + "\nc: &c " + many("*b", 9) + "\nd: &d " + many("*c", 9) +
			"\ne: &e " + many("*d", 9) + "\nf: &f " + many("*e", 9) + "\ng: &g " + many("*f", 9) + "\ntraces: [*g]",
		"itself": "traces: &t [*t, {on: *t}]",
		"root":   "&r\ndir: /t\nkeep: *r\ntraces: [*r]",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("f", []byte(text))
			if err == nil {
				t.Fatal("Parse found nothing wrong")
			}
			if n := len(lines(err)); n > maxProblems+1 {
				t.Errorf("Parse told %d problems, want %d at most", n, maxProblems+1)
			}
			var more int
			last := lines(err)[len(lines(err))-1]
			if _, err := fmt.Sscanf(last, "f: and %d more", &more); err == nil && more > maxNodes {
				t.Errorf("%d more problems than told were found, want %d at most", more, maxNodes)
			}
			if name == "values" && !strings.Contains(err.Error(), "more than 20000 keys and values") {
				t.Errorf("got %v, want that there are too many", err)
			}
		})
	}
	c, err := Parse("f", []byte(ok+"ring: {always: &a [gc, spans]}\ntraces: [{name: a, providers: *a}]"))
	must(t, err)
	if got, want := c.Traces[0].Providers, control.GC|control.Spans; got != want {
		t.Errorf("through an alias got %v, want %v", got, want)
	}
}

func TestParseExample(t *testing.T) {
	text, err := os.ReadFile("testdata/control.yaml")
	must(t, err)
	doc, err := os.ReadFile("doc.go")
	must(t, err)
	inDoc := "//\t" + strings.ReplaceAll(strings.TrimSuffix(string(text), "\n"), "\n", "\n//\t") + "\n//\n"
	if !strings.Contains(string(doc), inDoc) {
		t.Error("doc.go does not have testdata/control.yaml as it is")
	}
	on := []control.On{{Trigger: "signal", Key: "SIGUSR1"}, {Trigger: "http"}, {Trigger: "api", Key: "import*"}}
	if runtime.GOOS == "windows" { // no signal may ask for a trace there
		text = []byte(strings.Replace(string(text), "{trigger: signal, key: SIGUSR1}, ", "", 1))
		on = on[1:]
	}
	got, err := Parse("testdata/control.yaml", text)
	must(t, err)
	want := &control.Config{
		ID:   "prod-2026-11-20",
		Dir:  "/var/lib/myapp/traces",
		Keep: control.Keep{Files: 50, Bytes: 2 << 30, Age: 72 * time.Hour},
		Ring: control.RingConfig{
			Bytes: 32 << 20, Persist: true,
			Always: control.Spans | control.Logs | control.RuntimeMetrics | control.GC,
			Params: map[string]string{"runtime.metrics.interval": "1s"},
		},
		Traces: []control.TraceConfig{
			{
				Name: "first-error", On: []control.On{{Trigger: "log", Level: slog.LevelError}}, Mode: "snapshot", Window: 30 * time.Second,
				Providers: control.Spans | control.Logs | control.RuntimeMetrics | control.GC | control.Goroutines,
				Every:     time.Minute, PerHour: 6,
			},
			{
				Name: "slow-checkout",
				On: []control.On{
					{Trigger: "span", Key: "POST /checkout", LongerThan: 800 * time.Millisecond, Count: 3, Within: time.Minute},
					{Trigger: "watchdog", Key: "POST /checkout", LongerThan: 5 * time.Second},
				},
				Mode: "snapshot", Window: 15 * time.Second, Scope: "all",
				Providers: control.Spans | control.Logs | control.GC | control.Sched | control.Goroutines | control.ExecTrace,
				OneIn:     1, PerHour: 4,
			},
			{
				Name: "deep", On: on,
				Mode: "stream", Timeout: 30 * time.Second, MaxBytes: 256 << 20,
				Providers: control.Spans | control.Logs | control.RuntimeMetrics | control.GC | control.Sched | control.CPUProfile | control.Goroutines,
				KeepIf: &control.KeepIf{
					Any:     []string{"tenant=acme"},
					Longest: []control.KeepLongest{{LongerThan: 2 * time.Second, OneIn: 1}, {LongerThan: 500 * time.Millisecond, OneIn: 10}},
				},
				Params: map[string]string{"runtime.metrics.interval": "50ms"},
			},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestParseDefaults(t *testing.T) {
	for _, text := range []string{ok, ok + "id:\nkeep:\nring:\ntraces: ~\n", ok + "keep: {files: , bytes: }\nring: {bytes:, always: , persist: ~, params: }\n"} {
		got, err := Parse("f", []byte(text))
		must(t, err)
		if !strings.HasPrefix(got.ID, "sha256:") || len(got.ID) != len("sha256:")+12 {
			t.Errorf("ID is %q", got.ID)
		}
		want := control.DefaultConfig()
		want.ID, want.Dir = got.ID, "/t"
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %+v, want %+v", text, got, want)
		}
	}
	// printf 'dir: /t\n' | sha256sum
	if c, err := Parse("f", []byte(ok)); err != nil || c.ID != "sha256:0b2271b51c4b" {
		t.Errorf("ID of %q is %q, %v", ok, c.ID, err)
	}
	c, err := Parse("f", []byte("\ufeffdir: 5\r\nring: {bytes: 0, persist: false, always: []}\r\nkeep: {files: 0, bytes: 0, age: 1d}\r\n"))
	must(t, err)
	if c.Dir != "5" || !reflect.DeepEqual(c.Ring, control.RingConfig{}) || c.Keep != (control.Keep{Age: 24 * time.Hour}) {
		t.Errorf("got %+v, want what the file says", c)
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1000": 1000, "5B": 5, "10KB": 10_000, "10kB": 10_000, "3 MB": 3e6, "4GB": 4e9, "1TB": 1e12, "1KiB": 1024, "64MiB": 64 << 20,
		"2GiB": 2 << 30, "2TiB": 2 << 40, "9223372036854775807": math.MaxInt64, "8388607TiB": 8388607 << 40, "007": 7,
	} {
		if got, err := inRange(text, quantity.ParseBytes); err != nil || got != want {
			t.Errorf("the size %q is %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "+1", "MiB", "1.5GiB", "1_000", "0x10", "64mib", "64Mi", "1  KB", "1\tKB", "9223372036854775808", "18446744073709551616", "8388608TiB", "99999999999999999999GB", "1e6"} {
		if got, err := inRange(text, quantity.ParseBytes); err == nil {
			t.Errorf("the size %q is %d, want an error", text, got)
		}
	}
}

func TestParseDuration(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"0": 0, "250ms": 250 * time.Millisecond, "1m30s": 90 * time.Second, "72h": 3 * day, "7d": 7 * day, "1d12h": day + 12*time.Hour,
		"0d": 0, "-2d": -2 * day, "-1d1h": -day - time.Hour, "-5s": -5 * time.Second, "106751d": 106751 * day, "1d1.5h": day + 90*time.Minute,
	} {
		if got, err := inRange(text, quantity.ParseDuration); err != nil || got != want {
			t.Errorf("the duration %q is %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "5", "1.5d", "1d2d", "1h1d", "1d-1h", "1d+1h", "--1d", "+-1d", "1dd", "1 d", "106752d", "106751d24h", "99999999999999999999d", "-", "-d", "1d5"} {
		if got, err := inRange(text, quantity.ParseDuration); err == nil {
			t.Errorf("the duration %q is %v, want an error", text, got)
		}
	}
}

func TestParseLevel(t *testing.T) {
	for text, want := range map[string]slog.Level{
		"trace": -8, "TRACE": -8, "debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "Error": slog.LevelError, "error+2": 10, "info-3": -3,
	} {
		if got, err := parseLevel(text); err != nil || got != want {
			t.Errorf("parseLevel(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "5", "warning", "error+", "error+x", "trace+1"} {
		if got, err := parseLevel(text); err == nil {
			t.Errorf("parseLevel(%q) = %v, want an error", text, got)
		}
	}
}

// FuzzParse checks that a parsed configuration is valid, and that each problem has
// a place in the file.
func FuzzParse(f *testing.F) {
	text, err := os.ReadFile("testdata/control.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	for _, s := range []string{"", ok, "a: &a [*a]", "<<: {}", "? [a]\n: b", "%YAML 1.1\n---\ndir: !!binary aGk=\n", ok + "traces: [{name: a, on: [{trigger: [x]}], mode: {}}]", "\ufeffdir: |\n  a\r\u2028b: x\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse("f", text)
		if err == nil {
			if err := c.Validate(); err != nil {
				t.Errorf("what was parsed is not valid: %v", err)
			}
			return
		}
		all := []error{err}
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			all = joined.Unwrap()
		}
		if len(all) > maxProblems+1 {
			t.Errorf("%d problems, want %d at most", len(all), maxProblems+1)
		}
		breaks := 1 // as a library may count, which is more than we do
		for _, s := range []string{"\n", "\r", "\u0085", "\u2028", "\u2029"} {
			breaks += strings.Count(string(text), s)
		}
		for _, err := range all {
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Error() != err.Error() {
				t.Fatalf("%v is a %T, want an *Error", err, err)
			}
			if e.Line < 0 || e.Line > breaks+1 || (e.Line == 0) != (e.Column == 0) || e.Column > len(text)+1 {
				t.Errorf("%v is at no place of the file", e)
			}
			if field, is := errors.AsType[*control.FieldError](err); is != (e.Path != "") || is && field.Path != e.Path {
				t.Errorf("%v: the path %q is not that of the field error", e, e.Path)
			}
		}
	})
}
