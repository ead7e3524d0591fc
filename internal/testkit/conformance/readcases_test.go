//go:build conformance

package conformance_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// TestReadCases runs scripts that reproduce public bug reports about reading, and compares the output of the
// command with patterns. A pattern that begins with "!" must not match.
func TestReadCases(t *testing.T) {
	from := sample(t, "cases/read")
	entrace, err := command()
	must(t, err)
	dir := t.TempDir()
	must(t, os.CopyFS(dir, os.DirFS(from)))
	must(t, filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error { // the copied files may be read-only
		must(t, err)
		return os.Chmod(name, 0o700)
	}))
	cases := map[string][]string{
		"console-clef":                 {`ERROR order \{Id\} failed Id=17 exc`, `INFO order 17 retried Id=17 log`},
		"console-short-levels":         {`ERROR "health check failed`, `INFO "DEBU`}, // a level without a time could be a word
		"gotrace-ended-task":           {`─ accept .*\n.*├─ work `},
		"otlp-aspire-answer":           {`2 spans`, `exit 0`},
		"otlp-bare-resource-spans":     {`2 spans, 1 log record`, `─ child 1s server\n.*─ ERROR failed`},
		"otlp-shared-id":               {`─ call 50ms client\n.*─ serve \[back\] 40ms server\n.*─ db `},
		"query-field-as-value":         {`start: w_start .*\n`, `line: w_line .*\n`, `!nothing`},
		"replay-html-ok":               {`refused 2 spans .*\nexit 1`, `refused 1 span .*\nexit 1`},
		"tail-behind-two-rotations":    {`entrace: `}, // needs a program; TestTailSlow does the same
		"times-without-date":           {`2026-11-01 05:30:00`},
		"zipkin-v1-annotations":        {`version 1`},
		"chrome-name-speedscope":       {`chrome +\.trace\.json`},
		"console-rust-tracing":         {`WARN preparing yaks=3`},
		"folder-of-foreign-files":      {`(?s)(d/a\.jsonl and 1 other file.*){2}`},
		"gotrace-cut-in-header":        {`state +damaged`},
		"held-gotrace-region":          {`7 spans`, `!panic`},
		"held-gotrace-tail":            {`spans +81`, `state +damaged`},
		"held-otlp-oddities":           {`enums.json damaged: 2 spans`, `unknown enum name`, `!: 0 spans, 0 log`},
		"held-selftime-structure":      {`root +1 .* 800ms\n`, `\n1\n$`},
		"held-traceql":                 {`lostkid`, `svc +a +2`},
		"held-zipkin-cut":              {`get 207ms client`, `span 2 at offset 201`},
		"jaeger-follows-from":          {`─ op 207ms\n +└─ follower`},
		"jaeger-string-number":         {`3 spans`, `!PANIC`},
		"otlp-file-zstd":               {`(?s)(2 spans.*){2}`},
		"otlp-instrumentation-library": {`1 span,`, `─ a 1s`},
		"otlp-log-severity-text":       {`ERROR textonly`, `WARN Warning`, `ERROR fatal`, `ERROR crit`},
		"otlp-metrics-first":           {`(?s)(1 span,.*){2}`},
		"otlp-wrapped":                 {`(?s)(: 1 span,.*){3}`},
		"otlp-zero-start":              {`log records, 1s\n`, `!h`},
		"parquet-micros":               {`in.parquet is Parquet`},
		"query-array-any":              {`\.arr is a list here`},
		"query-free-text-symbols":      {`!unexpected`, `!exit 2`},
		"query-nil-left":               {`(?s)\n6\n.*\n6\n.*\n3\n.*\n3\n`},
		"receive-gzip-case":            {`^\{\} 200`},
		"receive-host-name":            {`localhost 200`, `entrace: requests for the host "host.docker.internal:24318" are refused: --allow-host`},
		"state-of-converted":           {`(?s)(state +ended.*){6}`, `!killed`},
		"view-follow-foreign":          {`follows only ENTRACE's own formats`},
		"zipkin-no-timestamp":          {`from +2016-`, `207ms later`, `!1970`, `!00:00:00`},
		"zipkin-shared-span":           {`client\n.*get \[back\] 150ms server.*\n.*db 100ms`, `11:43:16.200000 back get`},
		"zipkin-string-timestamp":      {`get 207ms`, `!PANIC`},
		"zipkin-v1":                    {`version 1`, `!1 span,`},
	}
	list, err := os.ReadDir(dir)
	must(t, err)
	for _, at := range list {
		t.Run(at.Name(), func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), "bash", filepath.Join(dir, at.Name(), "run.sh"))
			cmd.Env = append(os.Environ(), "ENTRACE="+entrace)
			out, _ := cmd.CombinedOutput() // some commands end with an error
			if cases[at.Name()] == nil {
				t.Error("it has no pattern")
			}
			for _, p := range cases[at.Name()] {
				not := p[0] == '!'
				if not {
					p = p[1:]
				}
				if regexp.MustCompile(p).Match(out) == not {
					t.Errorf("%q is there: %t in\n%s", p, not, out)
				}
			}
		})
	}
}
