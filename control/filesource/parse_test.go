package filesource

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"os"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/text/quantity"
)

var must = expect.Must

var update = flag.Bool("update", false, "write the expected texts in testdata and the texts in doc.go again")

const ok = "dir: /t\n"

func lines(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

// TestParseErrors checks the errors for files that cannot be in a text file.
func TestParseErrors(t *testing.T) {
	const known = "cpu.profile, exec.trace, gc, goroutines, logs, process, runtime.metrics, sched, spans"
	for _, test := range []struct{ name, text, want string }{
		{"NUL", "dir: é\x00\n", `f:1:7: control character U+0000 is not allowed`},
		{"escape", "dir: a\rid: \x1b\n", `f:2:5: control character U+001B is not allowed`},
		{"not UTF-8", ok + "id: \xff\n", `f:2:5: the text is not UTF-8`},
		{"UTF-16", "\xff\xfed\x00", `f:1:1: the text is not UTF-8`},
		{"deep", strings.Repeat("[", 100), `f:1:65: while increasing flow level: exceeded max depth of 64`},
		{"deep blocks", strings.Repeat("- ", 100), `f:1:129: while increasing indent level: exceeded max depth of 64`},
		{"too large", "dir: /t\n" + strings.Repeat("#", maxSize), `f: the file is larger than 262144 bytes`},
		{"text too long", ok + "id: " + strings.Repeat("x", maxText+1), `f:2:5: id: text is longer than 4096 bytes`},
		{"unknown and long", ok + strings.Repeat("é", 100) + ": 1", `f:2:1: unknown key "` + strings.Repeat("é", 32) + `"…: known keys are id, dir, keep, ring, traces`},
		{"unknown and cut in a character", ok + "a" + strings.Repeat("é", 100) + ": 1", `f:2:1: unknown key "a` + strings.Repeat("é", 31) + `"…: known keys are id, dir, keep, ring, traces`},
		{"key too long", ok + "\"" + strings.Repeat("a", 5000) + "\": a\n", `f:2:1: text is longer than 4096 bytes`},
		{"provider too long", ok + "ring: {always: [" + strings.Repeat("a", 100) + "]}", `f:2:17: ring.always[0]: unknown provider "` + strings.Repeat("a", 64) + `": known providers are ` + known},
		{"long anchor", "dir: *" + strings.Repeat("a", 300) + "\n", `f:1:6: unknown anchor '` + strings.Repeat("a", 184)},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := Parse("f", []byte(test.text))
			expect.Equal(t, fmt.Sprint(err), test.want, "the error of %.200q", test.text)
			if c != nil {
				t.Errorf("Parse returned a configuration with an error")
			}
		})
	}
}

// TestParseErrorsOfFiles compares the errors of the files in testdata/errors.txt, where "-- = --" separates a file from
// its errors.
func TestParseErrorsOfFiles(t *testing.T) {
	const name = "testdata/errors.txt"
	text := string(tracetest.ReadFile(t, name))
	cases := strings.Split("\n"+text, "\n-- ")[1:]
	var got strings.Builder
	for i := 0; i < len(cases); i += 2 {
		_, file, _ := strings.Cut(cases[i], " --\n")
		c, err := Parse("f", []byte(file))
		if c != nil {
			t.Errorf("%q has no error: %+v", file, c)
		}
		fmt.Fprintf(&got, "-- %s\n-- = --\n%v\n", cases[i], err)
	}
	golden(t, name, got.String())
}

func TestParseErrorTypes(t *testing.T) {
	_, err := Parse("f", []byte(ok+"keep: {files: -1}\n"))
	e, is := errors.AsType[*Error](err)
	if !is || e.File != "f" || e.Line != 2 || e.Column != 15 || e.Path != "keep.files" {
		t.Errorf("got %#v, want the place of keep.files", e)
	}
	if f, is := errors.AsType[*control.FieldError](err); !is || f.Path != "keep.files" {
		t.Errorf("got field error %#v, want that of keep.files", f)
	}
	expect.Equal(t, (&Error{Line: 1, Column: 2, Err: errors.New("x")}).Error(), "1:2: x", "without a file")
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
		expect.Equal(t, len(got), want, "of %d problems Parse told", n)
		if last := got[len(got)-1]; n > 20 && last != fmt.Sprintf("f: and %d more", n-20) {
			t.Errorf("of %d problems the last is %q", n, last)
		}
	}
}

// TestParseAliases checks small files whose aliases expand to very many values.
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
	expect.Equal(t, c.Traces[0].Providers, control.GC|control.Spans, "through an alias")
}

// golden compares text with the content of a file.
func golden(t *testing.T, name, text string) {
	t.Helper()
	if *update {
		must(t, os.WriteFile(name, []byte(text), 0o600))
	}
	expect.Equal(t, text, string(tracetest.ReadFile(t, name)), "%s; run this test with -update", name)
}

// TestParseExample parses the example of the documentation.
func TestParseExample(t *testing.T) {
	text := string(tracetest.ReadFile(t, "testdata/control.yaml"))
	tracetest.Part(t, "doc.go", "// This is a complete example: it has every key.\n//\n", "//\n",
		"//\t"+strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n//\t")+"\n", *update)
	if runtime.GOOS == "windows" { // no signal can request a trace there
		must(t, expect.Err(Parse("testdata/control.yaml", []byte(strings.Replace(text, ", {trigger: signal, key: SIGUSR1}", "", 1)))))
		return
	}
	c, err := Parse("testdata/control.yaml", []byte(text))
	must(t, err)
	fields, err := yaml.Marshal(c)
	must(t, err)
	golden(t, "testdata/control.fields.yaml", string(fields))
}

var (
	field = regexp.MustCompile(`(?m)^type (\w+) struct|^\t(\w+) .*?// (.*)`) // the start of a type, or a field and its comment

	kinds = map[string]string{
		"int": "number", "int64": "size", "time.Duration": "duration", "bool": "bool", "slog.Level": "level", "string": "text", "control.Mode": "text",
		"control.Trigger": "text", "control.Set": "providers", "map[string]string": "params", "[]string": "list",
	}
)

// TestKeysInDocuments: the table of keys in the documentation has each field of a configuration, with the comment at
// the end of the field's line in package control. The example has each key, too.
func TestKeysInDocuments(t *testing.T) {
	comments := make(map[string]string) // by type and field
	var of string
	for _, m := range field.FindAllStringSubmatch(string(tracetest.ReadFile(t, "../config.go")), -1) {
		of = cmp.Or(m[1], of)
		comments[of+m[2]] = m[3]
	}
	example := string(tracetest.ReadFile(t, "testdata/control.yaml"))
	var table strings.Builder
	var add func(indent string, of reflect.Type)
	add = func(indent string, of reflect.Type) {
		for f := range of.Fields() {
			key, kind, inner := keyOf(f.Name), kinds[f.Type.String()], f.Type
			if kind == "" && inner.Kind() == reflect.Slice {
				kind, inner = "list", inner.Elem()
			}
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			fmt.Fprintln(&table, strings.TrimSpace(fmt.Sprintf("//\t%-15s %-9s  %s", indent+key, kind, comments[of.Name()+f.Name])))
			if !strings.Contains(example, key+":") {
				t.Errorf("testdata/control.yaml has no %s", key)
			}
			if inner.Kind() == reflect.Struct {
				add(indent+"  ", inner)
			}
		}
	}
	add("", reflect.TypeFor[control.Config]())
	tracetest.Part(t, "doc.go", "// optional. A key without a value counts as missing. Unknown keys and duplicate keys are errors.\n//\n", "//\n", table.String(), *update)
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
		expect.DeepEqual(t, got, want, "%q", text)
	}
	// The id is from: printf 'dir: /t\n' | sha256sum
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

// FuzzParse checks that a parsed configuration is valid, and that each problem has a place in the file.
func FuzzParse(f *testing.F) {
	text, err := os.ReadFile("testdata/control.yaml")
	must(f, err)
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
		breaks := 1 // the YAML library may count all of these, and the parser fewer
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
