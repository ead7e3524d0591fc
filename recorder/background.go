package recorder

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"

	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/retain"
	"github.com/entrace-go/entrace/internal/write/safecall"
)

// A background runs functions that finish the files before the current one.
type background struct {
	cancel context.CancelFunc
	ctx    context.Context
	wg     sync.WaitGroup

	mu sync.Mutex

	err   error
	files []*os.File // earlier files whose content may not be on disk yet
	ended retain.Log // paths of finished files, without extensions
}

// sync makes the earlier files survive a loss of power.
func (b *background) sync() error {
	b.mu.Lock()
	files := slices.Clone(b.files)
	b.mu.Unlock()
	var err error
	for _, f := range files {
		err = errors.Join(err, osfile.Ignore(f.Sync(), os.ErrClosed))
	}
	return err
}

func (b *background) add(f *os.File) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.files = append(b.files, f)
}

func (b *background) remove(f *os.File) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.files = slices.DeleteFunc(b.files, func(g *os.File) bool { return f == g })
}

func (b *background) start(fn func(context.Context) error) {
	if b.ctx == nil {
		b.ctx, b.cancel = context.WithCancel(context.Background())
	}
	b.wg.Go(func() {
		if err := safecall.Run(func() error { return fn(b.ctx) }); err != nil {
			b.mu.Lock()
			b.err = errors.Join(b.err, err)
			b.mu.Unlock()
		}
	})
}

// wait waits until all started functions have returned. When ctx ends, it cancels their context.
func (b *background) wait(ctx context.Context) error {
	if b.ctx == nil {
		return nil
	}
	stop := context.AfterFunc(ctx, b.cancel)
	b.wg.Wait()
	stop()
	b.cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}
