//go:build conformance

package conformance_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/entrace-go/entrace/convert/folded"
	"github.com/entrace-go/entrace/convert/parquet"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

// tablesInstall runs commands in a cache folder, unless the file made already exists there because of an earlier
// run. It returns the folder.
func tablesInstall(made string, commands ...[]string) (dir string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(cache, "entrace-conformance", "tables")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(dir, made)); err == nil {
		return dir, nil
	}
	for _, c := range commands {
		cmd := exec.Command(c[0], c[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s: %w: %s", strings.Join(c, " "), err, out)
		}
	}
	_, err = os.Stat(filepath.Join(dir, made))
	return dir, err
}

const (
	duckdbPyPI   = "duckdb==2.0.0"
	pyarrowPyPI  = "pyarrow==26.0.1"
	infernoCrate = "inferno@0.12.8"
)

// duckdb installs DuckDB and PyArrow for Python, and returns the path of that Python.
var duckdb = sync.OnceValues(func() (string, error) {
	made := "has-" + duckdbPyPI + pyarrowPyPI
	dir, err := tablesInstall(made,
		[]string{"python3", "-m", "venv", "venv"},
		[]string{"venv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", duckdbPyPI, pyarrowPyPI},
		[]string{"touch", made})
	return filepath.Join(dir, "venv", "bin", "python"), err
})

// inferno installs the program that draws flame graphs, and returns its path.
var inferno = sync.OnceValues(func() (string, error) {
	bin := "inferno/bin/inferno-flamegraph"
	dir, err := tablesInstall(bin, []string{"cargo", "install", "--quiet", "--root", "inferno", infernoCrate})
	return filepath.Join(dir, bin), err
})

// tablesFiles returns traces of all kinds.
func tablesFiles(t *testing.T) map[string]string {
	files := map[string]string{
		"recorded v1": record(t, format.V1, format.IET),
		"recorded v2": record(t, format.V2, format.ET),
		"theirs":      "../../../format/testdata/v1.iet",
	}
	if dir := os.Getenv("ENTRACE_SAMPLES"); dir != "" {
		files["scoreman"] = filepath.Join(dir, "scoreman.iet")
	}
	return files
}

func tablesView(t testing.TB, name string) *view.View {
	t.Helper()
	f, err := format.Open(name, nil)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	v := tracetest.View(t, f)
	return v
}

// A duckTable holds facts about a table, which duck.py prints.
type duckTable struct {
	Types     [][2]string    `json:"types"`
	Roles     map[string]int `json:"roles"`
	Durations string         `json:"durations"`
	Services  []string       `json:"services"`
	Rows      [][]any        `json:"rows"`
	Texts     [][]any        `json:"texts"`
	Ints      [][]any        `json:"ints"`
	Bools     [][]any        `json:"bools"`
	Bytes     [][]any        `json:"bytes"`
	Floats    [][]any        `json:"floats"`
	Big       [][]any        `json:"big"`
	Wide      string         `json:"wide"`
	Children  int            `json:"children"`
	Parents   int            `json:"parents"`
}

// TestDuckDB lets DuckDB and PyArrow read a table that this module wrote, and compares what they find in it with the
// view of the trace. DuckDB also answers the questions about what PyArrow has read.
func TestDuckDB(t *testing.T) {
	python, err := duckdb()
	must(t, err)
	for name, file := range tablesFiles(t) {
		t.Run(name, func(t *testing.T) {
			v := tablesView(t, file)
			table := hosttest.Path(t, "ours.parquet")
			tablesWrite(t, table, v, parquet.Encode)
			want := tablesExpect(t, v)
			for _, reader := range []string{"duckdb", "pyarrow"} {
				var out, errs bytes.Buffer
				cmd := exec.Command(python, "testdata/tables/duck.py", table, reader)
				cmd.Stdout, cmd.Stderr = &out, &errs
				if err := cmd.Run(); err != nil {
					t.Fatalf("%s: %v: %s", reader, err, errs.Bytes())
				}
				var got duckTable
				must(t, json.Unmarshal(out.Bytes(), &got))
				tablesCompare(t, reader, &got, want)
				t.Logf("%s: %d rows, %d attributes, %s ns of spans", reader, len(got.Rows), len(got.Texts)+len(got.Ints)+len(got.Bools)+len(got.Bytes)+len(got.Floats)+len(got.Big), got.Durations)
			}
		})
	}
}

// tablesExpect returns the facts that DuckDB must find in the table of a trace.
func tablesExpect(t *testing.T, v *view.View) *duckTable {
	t.Helper()
	want := &duckTable{Roles: make(map[string]int)}
	var durations int64
	seen := make(map[string]bool)
	source := tracetest.NewSource(v)
	for id := range v.Rows() {
		role := v.Role(id)
		_, entry := v.ID(id)
		_, parent := v.ID(v.Parent(id))
		want.Roles[role.String()]++
		e, err := v.Entry(id)
		must(t, err)
		r, err := source.Resource(v.Resource(id))
		must(t, err)
		row := []any{float64(entry), float64(parent), role.String(), e.Metadata.Name, nil, e.Metadata.Target, e.Metadata.Level.String(), nil, nil, nil, nil, nil, nil, nil}
		if e.Message.Valid {
			row[4] = e.Message.Value
		}
		if ref := v.Ref(id); ref.TraceID != [16]byte{} {
			row[7] = hex.EncodeToString(ref.TraceID[:])
		}
		if ref := v.Ref(id); ref.SpanID != [8]byte{} {
			row[8] = hex.EncodeToString(ref.SpanID[:])
		}
		if at, ok := v.Time(id); ok {
			row[9] = strconv.FormatInt(at.UnixNano(), 10)
		}
		if s := r.Service(); s != "" {
			row[13] = s
			if role == view.RoleResource && !seen[s] {
				seen[s] = true
				want.Services = append(want.Services, s)
			}
		}
		if role == view.RoleSpan {
			s := otel.ReadSpan(e, format.SpanRef{})
			row[11], row[12] = s.Kind.String(), [...]string{"UNSET", "OK", "ERROR"}[s.Status]
			if s.Ended {
				durations += s.Duration
				row[10] = strconv.FormatInt(s.Duration, 10)
			}
			if v.Role(v.Parent(id)) == view.RoleSpan {
				want.Parents++
			}
		}
		want.Rows = append(want.Rows, row)
		want.attributes(float64(entry), e)
	}
	want.Durations = strconv.FormatInt(durations, 10)
	want.Children = want.Parents
	slices.Sort(want.Services)
	return want
}

// attributes adds the attributes of an entry that have no separate column.
func (d *duckTable) attributes(id float64, e *format.TraceEntry) {
	a := slices.Clone(e.Attributes)
	format.SortAttributes(a)
	for _, a := range a {
		switch a.Name {
		case format.AttrTraceID, format.AttrSpanID, format.AttrParentSpanID, format.AttrTime, format.AttrDuration, mapping.AttrKind, mapping.AttrStatusCode:
			continue
		}
		n, fits := a.Value.I64()
		row := func(v any) []any { return []any{id, a.Name, v} }
		switch kind := a.Value.Kind(); {
		case kind == format.KindString:
			d.Texts = append(d.Texts, row(a.Value.Text()))
		case kind == format.KindBytes:
			d.Bytes = append(d.Bytes, row(strings.ToUpper(hex.EncodeToString(a.Value.Bytes()))))
		case kind == format.KindBool:
			d.Bools = append(d.Bools, row(a.Value.Bool()))
		case kind == format.KindFloat:
			d.Floats = append(d.Floats, row(a.Value.Float()))
		case kind == format.KindI64, kind == format.KindU64 && fits:
			d.Ints = append(d.Ints, row(strconv.FormatInt(n, 10)))
		default:
			d.Big = append(d.Big, row(string(a.Value.AppendDecimal(nil))))
		}
	}
}

// duckTypes are the columns of a table with DuckDB's names of their types.
const duckTypes = `id BIGINT, parent BIGINT, role VARCHAR, name VARCHAR, message VARCHAR, target VARCHAR, level VARCHAR, ` +
	`module_path VARCHAR, file VARCHAR, line BIGINT, service VARCHAR, trace_id VARCHAR, span_id VARCHAR, parent_span_id VARCHAR, ` +
	`time_unix_nano BIGINT, duration_nano BIGINT, kind VARCHAR, status VARCHAR, ` +
	`attributes_string MAP(VARCHAR, VARCHAR), attributes_int MAP(VARCHAR, BIGINT), attributes_float MAP(VARCHAR, DOUBLE), ` +
	`attributes_bool MAP(VARCHAR, BOOLEAN), attributes_bytes MAP(VARCHAR, BLOB), attributes_big MAP(VARCHAR, VARCHAR), `

func tablesCompare(t *testing.T, reader string, got, want *duckTable) {
	t.Helper()
	var types strings.Builder
	for _, c := range got.Types {
		types.WriteString(c[0] + " " + c[1] + ", ")
	}
	expect.Equal(t, types.String(), duckTypes, "%s: the columns", reader)
	for _, f := range got.Floats {
		f[2], _ = strconv.ParseFloat(f[2].(string), 64)
	}
	for name, x := range map[string][2]any{
		"roles": {got.Roles, want.Roles}, "durations": {got.Durations, want.Durations}, "services": {got.Services, want.Services},
		"children": {got.Children, want.Children}, "parents": {got.Parents, want.Parents},
	} {
		expect.Equal(t, fmt.Sprint(x[0]), fmt.Sprint(x[1]), "%s: %s has", name, reader)
	}
	for name, x := range map[string][2][][]any{
		"rows": {got.Rows, want.Rows}, "texts": {got.Texts, want.Texts}, "ints": {got.Ints, want.Ints}, "bools": {got.Bools, want.Bools},
		"bytes": {got.Bytes, want.Bytes}, "floats": {got.Floats, want.Floats}, "big": {got.Big, want.Big},
	} {
		if len(x[0]) != len(x[1]) {
			t.Errorf("%s: %s has %d, want %d", name, reader, len(x[0]), len(x[1]))
			continue
		}
		for i := range x[0] {
			if g, w := fmt.Sprintf("%q", x[0][i]), fmt.Sprintf("%q", x[1][i]); g != w {
				t.Errorf("%s: %s has %s, want %s", name, reader, g, w)
				break
			}
		}
	}
	if len(want.Big) > 10 && got.Wide != "340282366920938463463374607431768211455" {
		t.Errorf("%s: the largest number is %s", reader, got.Wide)
	}
}

func tablesWrite(t *testing.T, name string, v *view.View, fn func(context.Context, io.Writer, *view.View) error) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, fn(t.Context(), &b, v))
	must(t, os.WriteFile(name, b.Bytes(), 0o600))
	return b.Bytes()
}

// cpuFile returns a trace with a CPU profile, which one of the examples records.
func cpuFile(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "waiting"), "./waiting")
	build.Dir, build.Env = "../../../examples", append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	record := exec.Command(filepath.Join(dir, "waiting"), "cpu")
	record.Dir = dir
	out, err := record.Output()
	must(t, err)
	return strings.TrimSpace(string(out))
}

// TestInferno lets inferno draw the folded stacks that this module writes. It must accept every line, and show the
// same total time as the lines.
func TestInferno(t *testing.T) {
	program, err := inferno()
	must(t, err)
	dir := t.TempDir()
	files := tablesFiles(t)
	files["cpu"] = cpuFile(t)
	for name, file := range files {
		stacks := filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".folded")
		encode := folded.EncodeFolded
		if name == "cpu" {
			encode = folded.EncodeFoldedCPU
		}
		b := tablesWrite(t, stacks, tablesView(t, file), encode)
		if len(b) == 0 {
			t.Logf("%s: no spans", name)
			continue
		}
		var sum uint64
		for l := range strings.Lines(string(b)) {
			n, err := strconv.ParseUint(strings.TrimSpace(l[strings.LastIndexByte(l, ' '):]), 10, 64)
			must(t, err)
			sum += n
		}
		var svg, errs bytes.Buffer
		cmd := exec.Command(program, "--countname", "ns", stacks)
		cmd.Stdout, cmd.Stderr = &svg, &errs
		if err := cmd.Run(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, errs.Bytes())
		}
		if errs.Len() > 0 {
			t.Errorf("%s: inferno says: %s", name, errs.Bytes())
		}
		if want := fmt.Sprintf("total_samples=\"%d\"", sum); !strings.Contains(svg.String(), want) {
			t.Errorf("%s: the flame graph has not %s", name, want)
		}
		t.Logf("%s: %d ns", name, sum)
	}
}
