package slogadapter

import (
	"math"
	"sync"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/recorder"
)

func TestNewSite(t *testing.T) {
	for _, test := range []struct {
		file string
		line int
		want place
	}{
		{"", 0, place{name: "event", pkg: "p", function: "p.f"}},
		{"/a/b.go", 7, place{name: "event b.go:7", pkg: "p", function: "p.f", file: "/a/b.go", line: 7}},
		{"C:/a/b.go", math.MaxInt32, place{name: "event b.go:2147483647", pkg: "p", function: "p.f", file: "C:/a/b.go", line: math.MaxInt32}},
		{"b.go", -1, place{name: "event b.go:-1", pkg: "p", function: "p.f", file: "b.go"}},
	} {
		expect.Equal(t, newSite("p.f", test.file, test.line).place, test.want, "newSite of %s:%d", test.file, test.line)
	}
}

// TestSiteCache looks up the same places from several goroutines: in the end each place has one site, and no site is
// lost.
func TestSiteCache(t *testing.T) {
	var c siteCache
	r := recorder.Discard()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for pc := range uintptr(200) {
				if c.of(r, pc, "m") == nil {
					t.Errorf("no site for %d", pc)
				}
			}
		})
	}
	wg.Wait()
	expect.Equal(t, len(*c.known.Load()), 200, "sites are known")
	if again := c.of(r, 7, "m"); c.of(r, 7, "n") != again || c.of(r, 0, "n") != c.of(r, 0, "m") {
		t.Error("a site is not the same the second time")
	}
}
