//go:build conformance

package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/entrace-go/entrace/convert/measureme"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

// analyzemePath builds the program around measureme's crate analyzeme, and returns the path of the program.
var analyzemePath = sync.OnceValues(func() (string, error) { return crate("testdata/analyzeme", "entrace-analyzeme") })

// crate builds the program of the Rust package in a folder, and returns the path of the program.
func crate(folder, program string) (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "entrace-conformance", program)
	cmd := exec.Command("cargo", "build", "--quiet", "--release", "--locked", "--manifest-path", folder+"/Cargo.toml", "--target-dir", dir)
	cmd.Stderr = os.Stderr
	return filepath.Join(dir, "release", program), cmd.Run()
}

// analyzeme returns the lines that the program around analyzeme prints about a file.
func analyzeme(t *testing.T, what, name string) []string {
	t.Helper()
	program, err := analyzemePath()
	must(t, err)
	var out, errs bytes.Buffer
	cmd := exec.Command(program, what, name)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("analyzeme %s %s: %v: %s", what, name, err, errs.Bytes())
	}
	if errs.Len() > 0 {
		t.Errorf("analyzeme %s %s: %s", what, name, errs.Bytes())
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

// A profileEvent is an event as analyzeme prints it.
type profileEvent struct {
	Kind   string   `json:"kind"`
	Label  string   `json:"label"`
	Args   []string `json:"args"`
	Thread uint32   `json:"thread"`
	Start  *uint64  `json:"start,omitempty"`
	End    *uint64  `json:"end,omitempty"`
	At     *uint64  `json:"at,omitempty"`
	Value  *uint64  `json:"value,omitempty"`
}

// A profileLabel holds the sums that analyzeme prints for a label. Times are not compared, because analyzeme omits
// some kinds of rustc's events.
type profileLabel struct {
	Label     string
	Intervals uint64
	Self      uint64
}

// viewProfile reads a profile with this module's decoder.
func viewProfile(t *testing.T, name string) *view.View {
	t.Helper()
	in, err := os.Open(name)
	must(t, err)
	defer in.Close()
	out, err := os.Create(hosttest.Path(t, "profile.iet"))
	must(t, err)
	defer out.Close()
	w, err := format.NewWriter(out, format.V2, format.IET, nil)
	must(t, err)
	must(t, measureme.Decode(context.Background(), in, w))
	must(t, w.Close())
	return openView(t, out.Name())
}

func openView(t *testing.T, name string) *view.View {
	t.Helper()
	f, err := format.Open(name, nil)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	v := tracetest.View(t, f)
	return v
}

// profileOf returns the events of a profile in the form that analyzeme prints, and the sums of each label. The
// self time of a span is its duration minus the durations of its direct children.
func profileOf(t *testing.T, v *view.View) ([]string, map[string]profileLabel) {
	t.Helper()
	var events []string
	labels := make(map[string]profileLabel)
	names := make(map[view.Row]string)
	for id := range v.Rows() {
		role := v.Role(id)
		if role == view.RoleRoot || role == view.RoleResource {
			continue
		}
		e, err := v.Entry(id)
		must(t, err)
		number := func(name string) *uint64 {
			v, ok := e.Attribute(name)
			n, _ := v.U64()
			if !ok {
				return nil
			}
			return &n
		}
		kind, _ := e.Attribute("measureme.kind")
		p := profileEvent{Kind: kind.Text(), Label: e.Metadata.Name, Args: []string{}, Thread: uint32(*number("thread.id"))}
		if e.Message.Valid {
			p.Label = e.Message.Value
		}
		for n := 0; ; n++ {
			arg, ok := e.Attribute("measureme.arg." + strconv.Itoa(n))
			if !ok {
				break
			}
			p.Args = append(p.Args, arg.Text())
		}
		switch at := number("time_unix_nano"); {
		case role == view.RoleSpan:
			d := *number("duration_nano")
			end := *at + d
			p.Start, p.End = at, &end
			names[id] = p.Label
			sum := labels[p.Label]
			labels[p.Label] = profileLabel{p.Label, sum.Intervals + 1, sum.Self + d}
			if up, ok := names[v.Parent(id)]; ok {
				sum := labels[up]
				sum.Self -= d
				labels[up] = sum
			}
		case at == nil:
			p.Value = number("measureme.value")
		default:
			p.At = at
		}
		b, err := json.Marshal(p)
		must(t, err)
		events = append(events, string(b))
	}
	return events, labels
}

// compareProfile reads a file with analyzeme and with this module's decoder, and compares the events.
func compareProfile(t *testing.T, name string) {
	t.Helper()
	ours, sums := profileOf(t, viewProfile(t, name))
	var theirs []string
	for _, line := range analyzeme(t, "events", name) {
		var p profileEvent
		must(t, json.Unmarshal([]byte(line), &p))
		b, err := json.Marshal(p)
		must(t, err)
		theirs = append(theirs, string(b))
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	if len(ours) != len(theirs) {
		t.Errorf("we read %d events, analyzeme %d", len(ours), len(theirs))
	}
	for i := range min(len(ours), len(theirs)) {
		if ours[i] != theirs[i] {
			t.Fatalf("event %d:\n we read %s\nthey read %s", i, ours[i], theirs[i])
		}
	}
	want := make(map[string]profileLabel)
	total := uint64(0)
	for _, line := range analyzeme(t, "labels", name) {
		var l profileLabel
		must(t, json.Unmarshal([]byte(line), &l))
		want[l.Label] = l
		total += l.Self
	}
	for label, l := range want {
		if sums[label] != l {
			t.Errorf("%s: we sum %+v, analyzeme %+v", label, sums[label], l)
		}
	}
	if !maps.Equal(sums, want) {
		t.Errorf("we have %d labels, analyzeme %d", len(sums), len(want))
	}
	t.Logf("%s: %d events, %d labels, %d ns of self time", filepath.Base(name), len(theirs), len(want), total)
}

// TestAnalyzemeFiles compares this module's decoder with analyzeme for files of the reference writer.
func TestAnalyzemeFiles(t *testing.T) {
	names, err := filepath.Glob("../../../convert/measureme/testdata/*.mm_profdata")
	if err != nil || len(names) == 0 {
		t.Fatal("no fixtures", err)
	}
	if dir := os.Getenv("ENTRACE_SAMPLES"); dir != "" {
		for _, name := range []string{"v8", "v9", "goldbig"} {
			names = append(names, filepath.Join(dir, "measureme", name+".mm_profdata"))
		}
	}
	for _, name := range names {
		if strings.Contains(name, "trunc") {
			continue // analyzeme panics
		}
		t.Run(filepath.Base(name), func(t *testing.T) {
			compareProfile(t, name)
		})
	}
}

// TestAnalyzemeRustc compares this module's decoder with analyzeme for a profile that the test makes with rustc.
func TestAnalyzemeRustc(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "main.rs")
	program := `use std::collections::HashMap;
fn main() {
	let mut m: HashMap<String, Vec<u32>> = HashMap::new();
	for (i, w) in "it's a pröfile of a small program".split(' ').enumerate() {
		m.entry(w.to_string()).or_default().push(i as u32);
	}
	println!("{m:?}");
}
`
	must(t, os.WriteFile(source, []byte(program), 0o600))
	for _, events := range []string{"default", "default,args", "all"} {
		t.Run(events, func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.Command("rustc", "-O", "-Zself-profile="+dir, "-Zself-profile-events="+events, "-o", filepath.Join(dir, "main"), source)
			cmd.Env = append(os.Environ(), "RUSTC_BOOTSTRAP=1")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			names, _ := filepath.Glob(filepath.Join(dir, "*.mm_profdata"))
			expect.MustLen(t, names, 1, "rustc left")
			compareProfile(t, names[0])
		})
	}
}
