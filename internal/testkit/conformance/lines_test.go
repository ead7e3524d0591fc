//go:build conformance

package conformance_test

import (
	"encoding/csv"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/view"
)

// The versions of loggers that are installed. The versions for Go, Java and Rust are in collector/go.mod,
// testdata/lines/pom.xml and testdata/lines/Cargo.toml.
const (
	pinoNPM    = "pino@10.4.0"
	winstonNPM = "winston@3.19.0"
	bunyanNPM  = "bunyan@2.0.5"
	loguruPyPI = "loguru==0.7.3"
	structPyPI = "structlog==26.1.0"
	jsonPyPI   = "python-json-logger==4.2.0"
	linesJava  = "has-java-lines-1"
)

// goLines builds the program that writes lines with loggers of Go.
var goLines = sync.OnceValues(func() (string, error) { return built("collector", "./lines") })

// nodeLoggers installs loggers for Node, and returns the folder of its modules.
var nodeLoggers = sync.OnceValues(func() (string, error) {
	made := "has-" + pinoNPM + winstonNPM + bunyanNPM
	dir, err := tablesInstall(made,
		[]string{"npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", "loggers-node", pinoNPM, winstonNPM, bunyanNPM},
		[]string{"touch", made})
	return filepath.Join(dir, "loggers-node", "node_modules"), err
})

// pythonLoggers installs loggers for Python, and returns the path of that Python.
var pythonLoggers = sync.OnceValues(func() (string, error) {
	made := "has-" + loguruPyPI + structPyPI + jsonPyPI
	dir, err := tablesInstall(made,
		[]string{"python3", "-m", "venv", "loggers"},
		[]string{"loggers/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", loguruPyPI, structPyPI, jsonPyPI},
		[]string{"touch", made})
	return filepath.Join(dir, "loggers", "bin", "python"), err
})

// javaLoggers installs loggers for Java, and returns the folder of their archives.
var javaLoggers = sync.OnceValues(func() (string, error) {
	pom, err := filepath.Abs("testdata/lines/pom.xml")
	if err != nil {
		return "", err
	}
	dir, err := tablesInstall(linesJava,
		[]string{"mkdir", "-p", "loggers-java"},
		[]string{"cp", pom, "loggers-java"},
		[]string{"mvn", "--quiet", "--file", "loggers-java/pom.xml", "dependency:copy-dependencies", "-DoutputDirectory=."},
		[]string{"touch", linesJava})
	return filepath.Join(dir, "loggers-java"), err
})

// rustLines builds the program that writes lines with tracing-subscriber.
var rustLines = sync.OnceValues(func() (string, error) { return crate("testdata/lines", "entrace-lines") })

// linesOf has a func for each language, which returns the command that writes lines with a logger.
var linesOf = map[string]func(logger string) ([]string, error){
	"go": func(logger string) ([]string, error) {
		program, err := goLines()
		return []string{program, logger}, err
	},
	"node": func(logger string) ([]string, error) {
		modules, err := nodeLoggers()
		return []string{"env", "NODE_PATH=" + modules, "node", "testdata/lines/write.js", logger}, err
	},
	"python": func(logger string) ([]string, error) {
		python, err := pythonLoggers()
		return []string{python, "testdata/lines/write.py", logger}, err
	},
	"rust": func(logger string) ([]string, error) {
		program, err := rustLines()
		return []string{program, logger}, err
	},
	"java": func(logger string) ([]string, error) {
		jars, err := javaLoggers()
		return []string{"java", "-Dlog4j2.level=INFO", "-cp", jars + "/*", "testdata/lines/Write.java", logger}, err
	},
}

// TestLinesOfLoggers reads the lines that loggers write themselves: three records, of the levels INFO, WARN and ERROR.
// Each must have the given shape, its message, and the time at which it was written, if the shape has a time.
func TestLinesOfLoggers(t *testing.T) {
	for _, x := range []struct{ language, logger, shape string }{
		{"go", "slog-json", "json"},
		{"go", "slog", "logfmt"},
		{"go", "slog-default", "time and level"},
		{"go", "log", "go"},
		{"go", "zap-json", "json"},
		{"go", "zap", "zap"},
		{"go", "zerolog-json", "json"},
		{"go", "zerolog", "console"},
		{"go", "logrus-json", "json"},
		{"go", "logrus", "logfmt"},
		{"go", "logrus-tty", "logrus"},
		{"go", "klog", "klog"},
		{"node", "pino", "json"},
		{"node", "winston", "json"},
		{"node", "bunyan", "json"},
		{"python", "standard", "python"},
		{"python", "default", "level"},
		{"python", "json_logger", "json"},
		{"python", "loguru", "loguru"},
		{"python", "loguru_json", "json"},
		{"python", "structlog", "structlog"},
		{"python", "structlog_json", "json"},
		{"rust", "text", "time, level, logger"},
		{"rust", "json", "json"},
		{"java", "logback", "logback"},
		{"java", "log4j2", "logback"},
		{"java", "jul", "java.util.logging"},
	} {
		t.Run(x.language+" "+x.logger, func(t *testing.T) {
			args, err := linesOf[x.language](x.logger)
			must(t, err)
			name := hosttest.Path(t, "x.log")
			before := time.Now()
			writeLines(t, name, args...)
			c, shapes := openLog(t, name)
			v := c.View()
			expect.DeepEqual(t, shapes, map[string]uint64{x.shape: 3}, "shapes")
			var levels []format.Level
			for i, r := range logRows(v) {
				levels = append(levels, v.Flags(r).Level())
				message, _ := v.Message(r)
				if want := []string{"served", "slow", "no card"}[i]; message != want && x.logger != "log" {
					t.Errorf("the message is %q, want %q", message, want)
				}
				at, timed := v.Start(r)
				if age := before.Sub(time.Unix(0, at)); timed && (age > time.Minute || age < -time.Minute) {
					t.Errorf("the record is %s old", age)
				}
			}
			expect.Slice(t, levels, []format.Level{format.LevelInfo, format.LevelWarn, format.LevelError}, "levels")
		})
	}
}

// TestLinesBelowTheirSpans records services that send spans and print records with the ids of these spans. Each record
// must be below its span, and the record without ids below the process.
func TestLinesBelowTheirSpans(t *testing.T) {
	exe, err := command()
	must(t, err)
	python := func(form string) ([]string, error) {
		bin, err := agent()
		return []string{filepath.Join(bin, "opentelemetry-instrument"), filepath.Join(bin, "python"), "testdata/lines/spans.py", form}, err
	}
	for name, service := range map[string]func() ([]string, error){
		"zap":                    func() ([]string, error) { return linesOf["go"]("zap-spans") },
		"python-json-logger":     func() ([]string, error) { return python("json") },
		"OpenTelemetry's format": func() ([]string, error) { return python("text") },
	} {
		t.Run(name, func(t *testing.T) {
			args, err := service()
			must(t, err)
			file := hosttest.Path(t, "x.et")
			cmd := exec.CommandContext(t.Context(), exe, append([]string{"run", "--console", "-o", file, "--"}, args...)...)
			cmd.Env = append(os.Environ(), "OTEL_SERVICE_NAME=shop", "OTEL_PYTHON_LOG_CORRELATION=true")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			c, _ := openLog(t, file)
			v := c.View()
			below := make(map[string]string)
			for _, r := range logRows(v) {
				if e, err := v.Entry(r); err == nil {
					if _, printed := e.Attribute("log.iostream"); printed {
						message, _ := v.Message(r)
						below[message] = v.Name(v.Parent(r))
					}
				}
			}
			want := map[string]string{"in GET /item": "GET /item", "in POST /order": "POST /order", "outside": filepath.Base(args[0])}
			expect.DeepEqual(t, below, want, "the records are below")
		})
	}
}

// TestLinesOfServers reads the lines that servers write. None may be without a shape.
func TestLinesOfServers(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "nginx.conf")
	must(t, os.WriteFile(config, []byte("pid "+dir+"/pid; events {} http { server { listen unix:"+dir+"/no/socket; } }"), 0o600))
	// Postgres says that its folder has the wrong owner or the wrong permissions.
	must(t, os.WriteFile(filepath.Join(dir, "postgresql.conf"), nil, 0o644))
	must(t, os.WriteFile(filepath.Join(dir, "PG_VERSION"), []byte("15\n"), 0o644))
	programs, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	must(t, err)
	postgres := append(programs[:min(len(programs), 1)], "-D", dir)
	if len(programs) > 0 && os.Getuid() == 0 { // which Postgres refuses
		must(t, os.Chmod(filepath.Dir(dir), 0o755))
		postgres = append([]string{"setpriv", "--reuid=65534", "--clear-groups"}, postgres...)
	}
	for shape, args := range map[string][]string{
		"postgres":    postgres,
		"redis":       {"redis-server", "--port", "0", "--unixsocket", filepath.Join(dir, "no", "socket")},
		"nginx error": {"nginx", "-c", config, "-e", filepath.Join(dir, "nginx error.log")},
	} {
		t.Run(shape, func(t *testing.T) {
			if _, err := exec.LookPath(args[0]); err != nil {
				skipOutsideCI(t, err)
			}
			name := filepath.Join(dir, shape+".log")
			if shape == "nginx error" {
				_ = exec.CommandContext(t.Context(), args[0], args[1:]...).Run() // it fails
			} else {
				writeLines(t, name, args...)
			}
			_, shapes := openLog(t, name)
			if len(shapes) != 1 || shapes[shape] == 0 {
				t.Errorf("the shapes are %v", shapes)
			}
		})
	}
}

// TestLinesAsLnav compares the times and levels of lines with the times and levels that lnav reads.
func TestLinesAsLnav(t *testing.T) {
	if _, err := exec.LookPath("lnav"); err != nil {
		skipOutsideCI(t, err)
	}
	for language, logger := range map[string]string{"python": "standard", "go": "klog"} {
		args, err := linesOf[language](logger)
		must(t, err)
		name := hosttest.Path(t, "x.log")
		writeLines(t, name, args...)
		lnav := exec.CommandContext(t.Context(), "lnav", "-n", "-c", ";SELECT log_time, log_level FROM all_logs", "-c", ":write-csv-to -", name)
		lnav.Env = append(os.Environ(), "HOME="+t.TempDir(), "TZ=UTC")
		out, err := lnav.Output()
		must(t, err)
		rows, err := csv.NewReader(strings.NewReader(string(out))).ReadAll()
		must(t, err)
		c, _ := openLog(t, name)
		v := c.View()
		records := logRows(v)
		expect.MustLen(t, rows, 1+len(records), "lines of lnav for %s", logger)
		for i, r := range records {
			at, _ := v.Start(r)
			lnavAt, err := time.Parse("2006-01-02 15:04:05.999999", rows[i+1][0])
			must(t, err)
			got := v.Flags(r).Level().String()
			want := strings.ToUpper(strings.TrimSuffix(rows[i+1][1], "ing"))
			if d := time.Unix(0, at).Sub(lnavAt); d > time.Millisecond || d < -time.Millisecond || got != want {
				t.Errorf("%s: record %d has level %s and is %s later than lnav says, whose level is %s", logger, i, got, d, want)
			}
		}
	}
}

func skipOutsideCI(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("ENTRACE_CI") != "" {
		t.Fatal(err)
	}
	t.Skip(err)
}

// openLog opens a log, and returns how many records have each shape.
func openLog(t *testing.T, name string) (c *convert.Trace, shapes map[string]uint64) {
	t.Helper()
	c, err := convert.Open(t.Context(), []string{name}, nil)
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	shapes = make(map[string]uint64)
	for r := range c.View().Rows() {
		if c.View().Role(r) == view.RoleRecorder && c.View().Name(r) == mapping.NameLines {
			e, err := c.View().Entry(r)
			must(t, err)
			for _, a := range e.Attributes {
				shapes[a.Name], _ = a.Value.U64()
			}
		}
	}
	return c, shapes
}

func logRows(v *view.View) (rows []view.Row) {
	for r := range v.Rows() {
		if v.Role(r) == view.RoleLog {
			rows = append(rows, r)
		}
	}
	return rows
}

// writeLines runs a program that may fail, and writes what it prints to a file.
func writeLines(t *testing.T, name string, args ...string) {
	t.Helper()
	f, err := os.Create(name)
	must(t, err)
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = f, f
	_ = cmd.Run()
	must(t, f.Close())
}
