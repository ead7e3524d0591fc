package control

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"
)

// TestCallsEndWhileDiskStands has what the control does for others stand, as it does in a
// call to a disk that does not answer: nobody who asks for more waits until the disk does.
func TestCallsEndWhileDiskStands(t *testing.T) {
	config := func(id string) *Config {
		return &Config{ID: id, Dir: t.TempDir(), Ring: RingConfig{Bytes: 4 << 20, Always: Logs}}
	}
	c, err := New(&Options{Config: config("first")})
	if err != nil {
		t.Fatal(err)
	}
	answer := make(chan struct{})
	if !c.worker.post(t.Context(), func() { <-answer }) {
		t.Fatal("nothing is done for others")
	}
	calls := map[string]func() error{
		"SetConfig":       func() error { return c.SetConfig(config("second")) },
		"Override":        func() error { return c.Override(config("third"), time.Hour) },
		"end of Override": func() error { return c.Override(nil, 0) },
		"Stop": func() error {
			if c.Stop(Request{Name: "none"}) {
				t.Error("Stop ended a stream")
			}
			return ErrLate
		},
		"Abort": func() error {
			if c.Abort(Request{Name: "none"}, "why") {
				t.Error("Abort ended a stream")
			}
			return ErrLate
		},
	}
	ended := make(chan string)
	for name, call := range calls {
		go func() {
			if err := call(); !errors.Is(err, ErrLate) {
				t.Errorf("%s: %v, want %v", name, err, ErrLate)
			}
			ended <- name
		}()
	}
	patience := time.After(time.Minute)
	for range calls {
		select {
		case <-ended:
		case <-patience:
			t.Fatal("a call waits for the disk")
		}
	}
	for c.worker.offer(func() {}) { // until the queue is full
	}
	if err := c.SetConfig(config("too much")); !errors.Is(err, errFull) {
		t.Errorf("SetConfig with a full queue: %v, want %v", err, errFull)
	}
	close(answer)
	if err := c.Override(nil, 0); err != nil { // which of the calls came last is open
		t.Error(err)
	}
	if err := c.SetConfig(config("fourth")); err != nil || c.Config().ID != "fourth" {
		t.Errorf("when the disk answers: %v, %s is in force", err, c.Config().ID)
	}
	if err := c.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}

// TestOnlyNotesWaitForTheDiskOfTheRing lets the write of a note stand.
func TestOnlyNotesWaitForTheDiskOfTheRing(t *testing.T) {
	dir := t.TempDir()
	config := func(id string) *Config {
		return &Config{
			ID: id, Dir: dir, Ring: RingConfig{Bytes: 4 << 20, Persist: true, Always: Logs},
			Traces: []TraceConfig{{Name: "shot", Providers: Logs, On: []On{{Trigger: TriggerAPI}}}},
		}
	}
	c, err := New(&Options{Config: config("first")})
	if err != nil {
		t.Fatal(err)
	}
	answer := make(chan struct{})
	var written []string
	if err := c.worker.do(func() {
		c.notes.stop()
		c.notes = newNoteWriter(func(note []byte) error {
			<-answer
			var n deathNote
			err := json.Unmarshal(note, &n)
			written = append(written, n.Config)
			return errors.Join(err, c.ring.SetNote(note))
		}, c.report)
	}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"second", "third", "fourth"} {
		if err := c.SetConfig(config(id)); err != nil {
			t.Errorf("SetConfig of %s: %v", id, err)
		}
	}
	if _, err := c.Start(t.Context(), Request{Trigger: TriggerAPI}); err != nil {
		t.Error(err)
	}
	close(answer)
	if err := c.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if last := len(written) - 1; last < 0 || last > 1 || written[last] != "fourth" {
		t.Errorf("the notes are of %q, want that of fourth behind one at most", written)
	}
}
