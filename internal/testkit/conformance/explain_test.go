//go:build conformance

package conformance_test

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// nezha unpacks the recordings of the public data set Nezha, which are one minute long each. It returns their
// folder, and the folder with the lists of faults.
func nezha(t *testing.T) (dir, faults string) {
	t.Helper()
	dir, faults = t.TempDir(), sample(t, "nezha/rca_data")
	f, err := os.Open(sample(t, "nezha/nezha-trainticket-otlp.tar.zst"))
	must(t, err)
	defer f.Close()
	z, err := zstd.NewReader(f)
	must(t, err)
	defer z.Close()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return dir, faults
		}
		must(t, err)
		if h.Typeflag != tar.TypeReg {
			continue
		}
		out, err := os.Create(filepath.Join(dir, filepath.Base(h.Name)))
		must(t, err)
		_, err = io.Copy(out, r)
		must(t, errors.Join(err, out.Close()))
	}
}

func minute(t *testing.T, name string) query.Run {
	t.Helper()
	opened, err := convert.Open(t.Context(), []string{name}, nil)
	if opened == nil {
		t.Fatal(err)
	}
	v := opened.View()
	q, err := query.Parse("")
	must(t, err)
	r, err := q.Run(t.Context(), v, nil)
	must(t, err)
	return query.Run{View: v, Rows: r.Rows}
}

// TestExplainNamesTheCause explains 45 injected faults with known causes. It compares the minute in which a fault
// begins (window 0), and each of the two minutes after it, with a healthy minute of the same day. A fourth time,
// it explains one recording that consists of the healthy minute and the last minute. docs/explain.md has the
// figures.
func TestExplainNamesTheCause(t *testing.T) {
	dir, faults := nezha(t)
	type score struct{ first, three, right, wrong int } // right, wrong: if the first cause is called sure
	wants := [4]score{{19, 22, 13, 9}, {33, 35, 21, 2}, {43, 44, 29, 1}, {38, 41, 18, 2}}
	var got [4]score
	n, alarms, alone := 0, 0, 0
	for day, normal := range map[string]string{"2023-01-29": "08_50", "2023-01-30": "11_39"} {
		healthy := minute(t, filepath.Join(dir, day+"_"+normal+"_normal.jsonl"))
		b, err := os.ReadFile(filepath.Join(faults, day, day+"-fault_list.json"))
		must(t, err)
		var lists map[string][]struct {
			Time string `json:"inject_time"`
			Pod  string `json:"inject_pod"`
		}
		must(t, json.Unmarshal(b, &lists))
		for seed := range uint64(30) { // divide a healthy minute into halves by requests
			v, r := healthy.View, rand.New(rand.NewPCG(seed, 1))
			halves := [2]view.Set[view.Row]{v.NewSet(), v.NewSet()}
			for row := range v.Rows() {
				if v.Role(row) == view.RoleSpan && v.Outermost(row) == row {
					halves[r.IntN(2)].Add(row)
				}
			}
			x, err := analyze.Explain(t.Context(), &analyze.Question{Before: []query.Run{{View: v, Rows: halves[0]}}, Now: []query.Run{{View: v, Rows: halves[1]}}, Since: analyze.NoTime})
			must(t, err)
			if x.Found {
				alarms++
			}
			part := v.NewSet() // three quarters of the minute, without a comparison
			for row := range halves[0].All() {
				part.Add(row)
			}
			for row := range halves[1].All() {
				if r.IntN(2) == 0 {
					part.Add(row)
				}
			}
			x, err = analyze.Explain(t.Context(), &analyze.Question{Now: []query.Run{{View: v, Rows: part}}, Since: analyze.NoTime})
			if err == nil && x.Found {
				alone++
			}
			must(t, err)
		}
		for _, list := range lists {
			for _, fault := range list {
				var h, m int
				_, err := fmt.Sscanf(fault.Time[11:16], "%d:%d", &h, &m)
				must(t, err)
				parts := strings.Split(fault.Pod, "-")
				truth := strings.Join(parts[:len(parts)-2], "-")
				n++
				for w := range got {
					at := h*60 + m + min(w, 2)
					run := minute(t, fmt.Sprintf("%s/%s_%02d_%02d_fault.jsonl", dir, day, at/60, at%60))
					before, now := []query.Run{healthy}, []query.Run{run}
					if w == 3 { // without a baseline
						before, now = nil, append(before, run)
					}
					x, err := analyze.Explain(t.Context(), &analyze.Question{Before: before, Now: now, Since: analyze.NoTime})
					must(t, err)
					sure := false
					for i, c := range x.Causes {
						if is := c.Service == truth; is && i < 3 {
							got[w].three++
							if i == 0 {
								got[w].first++
							}
						}
						if c.Sure && !sure {
							sure = true
							if c.Service == truth {
								got[w].right++
							} else {
								got[w].wrong++
							}
						}
					}
					if len(x.Causes) == 0 || x.Causes[0].Service != truth {
						t.Logf("window %d of %s %s: %s, and not %s", w, day, fault.Time[11:16], x.Verdict, truth)
					}
				}
			}
		}
	}
	t.Logf("%d of 60 three quarters of healthy minutes alone have a cause", alone)
	if alone > 2 {
		t.Errorf("%d of 60 three quarters of healthy minutes alone have a cause", alone)
	}
	t.Logf("%d of 60 equal halves of healthy minutes have a cause", alarms)
	if alarms > 2 {
		t.Errorf("%d of 60 equal halves of healthy minutes have a cause", alarms)
	}
	for w, want := range wants {
		g := got[w]
		t.Logf("window %d: %d faults, the service is first in %d, among three in %d; called sure: %d right, %d wrong", w, n, g.first, g.three, g.right, g.wrong)
		if n != 45 || g.first < want.first || g.three < want.three || g.right < want.right || g.wrong > want.wrong {
			t.Errorf("window %d: got %+v of %d, want %+v of 45", w, g, n, want)
		}
	}
}
