package recorder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

func TestFollowLiveRecorder(t *testing.T) {
	for _, v := range []format.Version{format.V1, format.V2} {
		for _, base := range []string{"app.et", "app.iet"} {
			t.Run(fmt.Sprintf("v%d/%s", v, base), func(t *testing.T) {
				name := hosttest.Path(t, base)
				rec, err := Create(name, &Options{Version: v})
				must(t, err)
				const writers, each = 4, 250
				var mu sync.Mutex
				written := make(map[uint32]string)
				var wg, done sync.WaitGroup
				followed := make([]map[uint32]string, 3)
				for i := range followed {
					done.Go(func() { followed[i] = followLive(t, name) })
				}
				for w := range writers {
					wg.Go(func() {
						for i := range each {
							e := format.TraceEntry{Metadata: format.Metadata{Name: fmt.Sprintf("%d of %d %s", i, w, strings.Repeat("x", i*7)), Level: format.LevelInfo}}
							for k := range 8 {
								e.Attributes = append(e.Attributes, format.Attribute{Name: fmt.Sprintf("a%d", k), Value: format.I64Value(int64(k))})
							}
							id, err := rec.Append(&e)
							expect.OK(t, err)
							mu.Lock()
							written[id] = e.Metadata.Name
							mu.Unlock()
						}
					})
				}
				wg.Wait()
				must(t, rec.Close(context.Background()))
				done.Wait()
				for i, got := range followed {
					expect.Equal(t, len(got), writers*each, "entries of follower %d", i)
					for id, name := range written {
						if got[id] != name {
							t.Errorf("follower %d: entry %d is %.20q, want %.20q", i, id, got[id], name)
							break
						}
					}
				}
			})
		}
	}
}

// followLive follows a trace until its end. It returns the names of the entries by id, without the entries
// of the recorder itself.
func followLive(t *testing.T, name string) map[uint32]string {
	fl, err := format.Follow(name, &format.FollowOptions{Poll: time.Millisecond})
	if err != nil {
		t.Error(err)
		return nil
	}
	defer fl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	got := make(map[uint32]string)
	for want := uint32(0); ; want++ {
		id, e, err := fl.Next(ctx)
		if err != nil {
			if !errors.Is(err, io.EOF) || errors.Is(err, format.ErrTruncated) {
				t.Errorf("behind entry %d: %v, want io.EOF", want, err)
			}
			return got
		}
		if id != want {
			t.Errorf("entry %d, want %d", id, want)
			return got
		}
		if id > 0 && !e.IsEnd() {
			expect.Equal(t, len(e.Attributes), 8, "attributes of entry %d", id)
			got[id] = strings.Clone(e.Metadata.Name)
		}
	}
}
