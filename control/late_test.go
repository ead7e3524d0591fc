package control

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/write/safecall"
)

// TestOnlyNotesWaitForTheDiskOfTheRing blocks the writing of a note to the ring. Other calls do not wait
// for it.
func TestOnlyNotesWaitForTheDiskOfTheRing(t *testing.T) {
	dir := t.TempDir()
	config := func(id string) *Config {
		return &Config{
			ID: id, Dir: dir, Ring: RingConfig{Bytes: 4 << 20, Persist: true, Always: Logs},
			Traces: []TraceConfig{{Name: "shot", Providers: Logs, On: []On{{Trigger: TriggerAPI}}}},
		}
	}
	c, err := New(&Options{Config: config("first")})
	expect.Must(t, err)
	answer := make(chan struct{})
	var written []string
	c.applying.Lock()
	c.notes.stop()
	c.notes = newRepeater(&c.writer.guard, func() {
		note := c.note(c.Config())
		<-answer
		var n struct {
			Config string `json:"config"`
		}
		expect.OK(t, json.Unmarshal(note, &n))
		written = append(written, n.Config)
		expect.OK(t, c.ring.SetNote(note))
	})
	c.applying.Unlock()
	for _, id := range []string{"second", "third", "fourth"} {
		expect.Is(t, c.SetConfig(config(id)), nil, "SetConfig of %s", id)
	}
	expect.OK(t, expect.Err(c.Start(t.Context(), Request{Trigger: TriggerAPI})))
	close(answer)
	expect.OK(t, c.Shutdown(context.Background()))
	if n := len(written); n < 1 || n > 2 || written[n-1] != "fourth" {
		t.Errorf("the notes are of %q, want that of fourth behind one at most", written)
	}
}

// TestRepeaterRunsOnceAfterManyCalls calls again many times while the function of a repeater runs. The
// function runs once more.
func TestRepeaterRunsOnceAfterManyCalls(t *testing.T) {
	runs, end := make(chan int), make(chan struct{})
	n := 0
	r := newRepeater(new(safecall.Guard), func() {
		n++
		runs <- n
		<-end
	})
	r.again()
	got := []int{<-runs}
	for range 10 {
		r.again()
	}
	close(end)
	got = append(got, <-runs)
	r.stop()
	if want := []int{1, 2}; !slices.Equal(got, want) || n != 2 {
		t.Errorf("the runs are %v, %d in all, want %v", got, n, want)
	}
}
