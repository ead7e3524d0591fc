//go:build conformance

package conformance_test

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
)

const (
	s3fsPyPI  = "s3fs==2026.9.0"
	s3Version = "v1.8.0" // the version of versitygw
	s3Key     = "key"
	s3Secret  = "a-secret-of-the-test"
)

// s3fs installs DuckDB and an S3 client for Python, and returns the path of that Python.
var s3fs = sync.OnceValues(func() (string, error) {
	made := "has-" + s3fsPyPI
	dir, err := tablesInstall(made,
		[]string{"python3", "-m", "venv", "s3"},
		[]string{"s3/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", duckdbPyPI, s3fsPyPI},
		[]string{"touch", made})
	return filepath.Join(dir, "s3", "bin", "python"), err
})

// s3Server installs an S3 server, and returns the path of its program.
var s3Server = sync.OnceValues(func() (string, error) {
	made := "versitygw-" + s3Version
	dir, err := tablesInstall(made,
		[]string{"sh", "-c", "GOBIN=$PWD GOWORK=off GOFLAGS= go install github.com/versity/versitygw/cmd/versitygw@" + s3Version},
		[]string{"mv", "versitygw", made})
	return filepath.Join(dir, made), err
})

// startS3 starts an S3 server with a bucket, and returns the environment for its clients.
func startS3(t *testing.T, bucket string) []string {
	t.Helper()
	exe, err := s3Server()
	must(t, err)
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	must(t, os.MkdirAll(filepath.Join(root, bucket), 0o700))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := l.Addr().String()
	must(t, l.Close())
	var said bytes.Buffer
	server := exec.CommandContext(t.Context(), exe, "--port", address, "--quiet", "posix", "--sidecar", filepath.Join(dir, "metadata"), root)
	must(t, os.Mkdir(filepath.Join(dir, "metadata"), 0o700))
	server.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+s3Key, "ROOT_SECRET_KEY="+s3Secret)
	server.Stdout, server.Stderr = &said, &said
	must(t, server.Start())
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	for {
		c, err := net.Dial("tcp", address)
		if err == nil {
			must(t, c.Close())
			return append(os.Environ(), "AWS_ENDPOINT_URL=http://"+address, "AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID="+s3Key, "AWS_SECRET_ACCESS_KEY="+s3Secret)
		}
		select {
		case err := <-ended:
			t.Fatalf("the server ended: %v\n%s", err, said.Bytes())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// archived writes trace number i. It has spans of two services on two days, some of which failed.
func archived(t *testing.T, name string, i int) {
	t.Helper()
	f, err := os.Create(name)
	must(t, err)
	w, err := format.NewWriter(f, format.V2, format.ET, nil)
	must(t, err)
	write := func(e *format.TraceEntry) uint32 {
		format.SortAttributes(e.Attributes)
		id, err := w.Write(e)
		must(t, err)
		return id
	}
	text := func(name, value string) format.Attribute {
		return format.Attribute{Name: name, Value: format.StringValue(value)}
	}
	write(format.Root())
	for j, service := range []string{"shop", fmt.Sprintf("stock/%d=ä %%", i%3)} {
		resource := write(&format.TraceEntry{Metadata: format.Metadata{Name: format.NameResource}, Attributes: []format.Attribute{text("service.name", service)}})
		for k := range 10 {
			a := []format.Attribute{
				text(format.AttrTraceID, fmt.Sprintf("%032x", i+1)), text(format.AttrSpanID, fmt.Sprintf("%016x", 100*j+k+1)),
				{Name: format.AttrTime, Value: format.TimeValue(time.Date(2026, 11, 24, 18+k, i%60, 0, 0, time.UTC))},
				{Name: format.AttrDuration, Value: format.U64Value(uint64(1000*i + k))},
			}
			if k%4 == 0 {
				a = append(a, text("otel.status_code", "ERROR"))
			}
			write(&format.TraceEntry{Parent: resource, Metadata: format.Metadata{Name: fmt.Sprint("GET /", k)}, Attributes: a})
		}
	}
	must(t, errors.Join(w.Close(), f.Close()))
}

// TestArchiveInS3 archives 200 traces to an S3 server. One process is killed while it works, and a second one
// continues. DuckDB's answers about the objects must equal entrace's answers about the traces.
func TestArchiveInS3(t *testing.T) {
	python, err := s3fs()
	must(t, err)
	exe, err := command()
	must(t, err)
	env := startS3(t, "kept")
	dir := t.TempDir()
	const traces = 200
	for i := range traces {
		archived(t, filepath.Join(dir, fmt.Sprintf("%03d.et", i)), i)
	}
	archive := func() *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), exe, "archive", dir, "--to", "s3://kept/a/b")
		cmd.Env = env
		return cmd
	}
	first := archive()
	out, err := first.StdoutPipe()
	must(t, err)
	must(t, first.Start())
	lines := bufio.NewScanner(out)
	for range 2 * traces { // half of all lines: each trace has four
		lines.Scan()
	}
	must(t, first.Process.Kill())
	if first.Wait() == nil {
		t.Fatal("it ended before it was killed")
	}
	second, err := archive().CombinedOutput()
	if err != nil || bytes.Contains(second, []byte("archived 0 traces")) || !bytes.Contains(second, []byte(" archived before")) {
		t.Fatalf("%v\n%s", err, second)
	}
	const measured = "select service, status, count(*), sum(duration_nano), max(duration_nano) from entries where role = 'span' "
	asked := []string{measured + "group by all", measured + "and day = '2026-11-25' group by all"}
	cmd := exec.CommandContext(t.Context(), python, "testdata/tables/bucket.py", "kept/a/b")
	cmd.Env = env
	question, err := json.Marshal(asked)
	must(t, err)
	cmd.Stdin = bytes.NewReader(question)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	answer, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, errs.Bytes())
	}
	var got [][][]string
	must(t, json.Unmarshal(answer, &got))
	const measures = " | count() | sum(duration) | max(duration) by(service, status)"
	for i, selected := range []string{`{ entry:role = span }`, `{ entry:role = span && start >= "2026-11-25T00:00:00Z" }`} {
		out, err := exec.CommandContext(t.Context(), exe, "stats", dir, "--csv", "-q", selected+measures).Output()
		must(t, err)
		table, err := csv.NewReader(bytes.NewReader(out)).ReadAll()
		must(t, err)
		var want []string
		for _, row := range table[1:] {
			want = append(want, strings.ToLower(strings.Join(row, " ")))
		}
		var have []string
		for _, row := range got[i] {
			have = append(have, strings.ToLower(strings.Join(row, " ")))
		}
		slices.Sort(want)
		slices.Sort(have)
		if len(want) != 8 || !slices.Equal(have, want) {
			t.Errorf("%s: DuckDB has %q, entrace %q", selected, have, want)
		}
	}
}

// TestQueryOfTheFleet lets DuckDB run the query of examples/fleet on an archive in a folder.
func TestQueryOfTheFleet(t *testing.T) {
	python, err := duckdb()
	must(t, err)
	exe, err := command()
	must(t, err)
	sql, err := filepath.Abs("../../../examples/fleet/duckdb.sql")
	must(t, err)
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "traces"), 0o700))
	for i := range 3 {
		archived(t, filepath.Join(dir, "traces", fmt.Sprint(i, ".et")), i)
	}
	var out []byte
	for _, args := range [][]string{
		{exe, "archive", "traces", "--to", "archive"},
		{python, "-c", "import duckdb, sys; print(duckdb.sql(open(sys.argv[1]).read()).fetchall())", sql},
	} {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = dir
		out, err = cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	// In each trace, six spans of each service began on the day of the query.
	if got, want := strings.Count(string(out), "GET /"), 20; got != want || !strings.Contains(string(out), "('shop', 'GET /5', 3, 0, 0.002005)") {
		t.Errorf("got %d rows, want %d:\n%s", got, want, out)
	}
}
