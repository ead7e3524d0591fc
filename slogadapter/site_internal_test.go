package slogadapter

import (
	"sync"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/recorder"
)

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
