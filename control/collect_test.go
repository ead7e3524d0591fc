package control

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// TestSignalsOfOneInstantAreOneCall sends a burst of signals, and one more signal later.
func TestSignalsOfOneInstantAreOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ch := make(chan os.Signal)
		begun := time.Now()
		var calls []time.Duration
		done := make(chan struct{})
		go func() {
			defer close(done)
			collect(ch, func(os.Signal) { calls = append(calls, time.Since(begun)) })
		}()
		for range 30 {
			ch <- os.Interrupt
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		ch <- os.Interrupt
		close(ch)
		<-done
		want := []time.Duration{0, sameInstant, time.Second + 30*time.Millisecond}
		expect.Slice(t, calls, want, "the calls are at")
	})
}
