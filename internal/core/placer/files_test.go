package placer_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/entrace-go/entrace/internal/core/placer"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// TestNamesStayAcrossFiles writes log records to a thousand files, one after the other. Each attribute must have
// the name with which it was recorded; only names that occur twice in a record get a suffix. Now and then the test
// discards the new file and continues the file before it, as after a failed rotation.
func TestNamesStayAcrossFiles(t *testing.T) {
	for _, columns := range []bool{false, true} {
		t.Run(fmt.Sprintf("columns=%t", columns), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(7, 11))
			r := newRig(placer.Options{Columns: columns})
			var want [][]string
			check := func() {
				t.Helper()
				for i, e := range r.entries(t)[1:] {
					var got []string
					for _, a := range e.Attributes {
						got = append(got, a.Name)
					}
					names := want[i]
					if columns {
						slices.Sort(got)
						names = slices.Sorted(slices.Values(names))
					}
					expect.Slice(t, got, names, "entry %d", i)
				}
			}
			for range 1000 {
				before, wanted := r.Placer, want
				r.Placer, want = r.Next(), nil
				r.Resume(0, wire.MagicSize, 0)
				r.Root()
				fill := func() {
					for range 1 + rnd.IntN(6) {
						want = append(want, r.random(rnd))
					}
					check()
				}
				fill()
				if rnd.IntN(4) == 0 {
					r.Placer, want = before, wanted
					fill()
				}
			}
		})
	}
}

// random places a log record with random attributes, some of them in a group. It returns the names that the entry
// must have.
func (r *rig) random(rnd *rand.Rand) (names []string) {
	const few = 5
	twice := make(map[string]int)
	r.place(record.KindLog, 0, 0, 0, 0, func(b *record.Builder) {
		b.Head(&wire.Head{Name: "event", HasMessage: true})
		b.User()
		prefix := ""
		for range rnd.IntN(4) {
			if prefix == "" && rnd.IntN(3) == 0 {
				group := fmt.Sprint("g", rnd.IntN(40))
				b.Group(group)
				prefix = group + "."
			}
			name := fmt.Sprint("n", rnd.IntN(few))
			b.I64(name, 1)
			name = prefix + name
			twice[name]++
			if twice[name] > 1 {
				name = fmt.Sprintf("%s#%d", name, twice[name])
			}
			names = append(names, name)
		}
		if prefix != "" {
			b.EndGroup()
		}
		b.End()
	})
	return names
}
