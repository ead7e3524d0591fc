package format

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/file/mapfile"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// notOnWindows skips a test that changes the size of a mapped file.
func notOnWindows(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("Windows neither truncates nor replaces a mapped file")
	}
}

// pages returns a trace of many pages whose entries have long texts. Decoding does not fail if bytes of a text are
// wrong, so only a comparison of the texts notices this.
func pages(v Version, sf StorageFormat) *fakeTrace {
	es := small(60)
	for i := 1; i < len(es); i++ {
		es[i].Attributes = []Attribute{{"text", StringValue(strings.Repeat(fmt.Sprintf("%3d ", i), 300))}}
	}
	return fakeFile{Version: v, Format: sf, Entries: es}.build()
}

// ways are all the ways to read entry id of a File.
var ways = []struct {
	name string
	read func(f *File, id uint32) (raw []byte, err error)
}{
	{"AppendRaw", func(f *File, id uint32) ([]byte, error) { return f.appendRaw(nil, id) }},
	{"Entry", func(f *File, id uint32) ([]byte, error) {
		e, err := f.Entry(id)
		if err != nil {
			return nil, err
		}
		return AppendTraceEntry(nil, f.Version(), e), nil
	}},
	{"Attribute", func(f *File, id uint32) ([]byte, error) {
		v, ok, err := f.Attribute(id, "text")
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, errors.New("no attribute")
		}
		// Only this attribute was read.
		return append([]byte("attribute "), v.Bytes()...), nil
	}},
	{"Walk", func(f *File, id uint32) (raw []byte, err error) {
		stop := errors.New("stop")
		err = f.Walk(id, func(_ uint32, e *TraceEntry) error {
			raw = AppendTraceEntry(nil, f.Version(), e)
			return stop
		})
		if errors.Is(err, stop) {
			err = nil
		}
		return raw, err
	}},
}

// wantRaw returns the bytes that a way of reading must return for entry id.
func (t *fakeTrace) wantRaw(way string, id int) []byte {
	if way == "Attribute" {
		return append([]byte("attribute "), t.Entries[id].Attributes[0].Value.Bytes()...)
	}
	return t.raws[id].b
}

func TestTruncatedWhileMapped(t *testing.T) {
	notOnWindows(t)
	eachKind(t, func(t *testing.T, v Version, sf StorageFormat) {
		tr := pages(v, sf)
		page := os.Getpagesize()
		last := len(tr.b) / page * page // the offset at which the last page begins
		cuts := map[string]int{
			"all":                       0,
			"all but a byte":            1,
			"whole pages":               2 * page,
			"within an entry's text":    tr.ends[30] - 5,
			"the last page":             last,
			"in the last page":          last + (len(tr.b)-last)/2,
			"the last byte":             len(tr.b) - 1,
			"the last entry":            tr.starts[60],
			"in the last entry's text":  tr.ends[60] - 700,
			"at the end of an entry":    tr.ends[40],
			"in the middle of the page": 5*page + 100,
		}
		for what, size := range cuts {
			t.Run(what, func(t *testing.T) {
				name := writeFile(t, "x", tr.b)
				f, err := Open(name, nil)
				must(t, err)
				defer f.Close()
				other, err := Open(writeFile(t, "other", tr.b), nil)
				must(t, err)
				defer other.Close()
				must(t, os.Truncate(name, int64(size)))
				var wg sync.WaitGroup
				var once [4]sync.Once // only one error for each way
				for range 3 {
					wg.Go(func() {
						for i, way := range ways {
							for id := 1; id < f.Len(); id++ {
								got, err := way.read(f, uint32(id))
								whole, same := tr.ends[id] <= size, bytes.Equal(got, tr.wantRaw(way.name, id))
								switch {
								case err == nil && !same:
									once[i].Do(func() {
										t.Errorf("%s of entry %d, bytes %d to %d of a file of %d that has %d now: other bytes than were there, and no error",
											way.name, id, tr.bodies[id], tr.ends[id], len(tr.b), size)
									})
								case err == nil: // the bytes were read before the cut, or come before it
								case !errors.Is(err, ErrShrunk):
									once[i].Do(func() { t.Errorf("%s of entry %d: %v (%T), want %v", way.name, id, err, err, ErrShrunk) })
								case whole && way.name != "Walk" && tr.ends[id] <= size/page*page:
									once[i].Do(func() { t.Errorf("%s of entry %d, which is whole: %v", way.name, id, err) })
								}
								if got, err := way.read(other, uint32(id)); err != nil || !bytes.Equal(got, tr.wantRaw(way.name, id)) {
									t.Errorf("%s of another file: %v", way.name, err)
								}
							}
						}
					})
				}
				wg.Wait()
				err = f.Walk(0, func(uint32, *TraceEntry) error { return nil })
				if err != nil && !errors.Is(err, ErrShrunk) {
					t.Errorf("Walk: %v, want %v", err, ErrShrunk)
				} else if err == nil && size <= last {
					t.Errorf("Walk of a file of which pages are gone: no error")
				}
			})
		}
	})
}

// TestTruncatedWhileOpened truncates a file after Open has read its size, but before the scan that builds the
// index.
func TestTruncatedWhileOpened(t *testing.T) {
	notOnWindows(t)
	eachKind(t, func(t *testing.T, v Version, sf StorageFormat) {
		tr := pages(v, sf)
		for _, size := range []int{0, 5, 100, 2*os.Getpagesize() + 7, len(tr.b) - 1} {
			name := writeFile(t, "x", tr.b)
			src, err := mapfile.Open(name)
			must(t, err)
			must(t, os.Truncate(name, int64(size)))
			f := &File{src: src, name: name, maxSize: DefaultMaxEntrySize}
			err = f.index(&OpenOptions{})
			switch {
			case err == nil && f.damage == nil && sf != ET:
				t.Errorf("cut to %d: no error, %d entries", size, f.Len())
			case err != nil && !errors.Is(err, ErrShrunk):
				t.Errorf("cut to %d: %v (%T), want %v", size, err, err, ErrShrunk)
			case f.damage != nil && !errors.Is(f.damage, ErrShrunk):
				t.Errorf("cut to %d: damage %v, want %v", size, f.damage, ErrShrunk)
			}
			must(t, src.Close())
		}
	})
}

func TestFollowShrunk(t *testing.T) {
	notOnWindows(t)
	streams(t, func(t *testing.T, v Version, sf StorageFormat) {
		tr := pages(v, sf)
		name := writeFile(t, "x.iet", tr.b)
		fl, err := Follow(name, &FollowOptions{Poll: time.Millisecond})
		must(t, err)
		defer fl.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		for range tr.ends {
			if _, _, err := fl.Next(ctx); err != nil {
				t.Fatal(err)
			}
		}
		must(t, os.Truncate(name, int64(tr.ends[3])))
		if _, _, err := fl.Next(ctx); !errors.Is(err, ErrShrunk) {
			t.Errorf("Next: %v, want %v", err, ErrShrunk)
		}
	})
}

func TestGrowsWhileMapped(t *testing.T) {
	streams(t, func(t *testing.T, v Version, sf StorageFormat) {
		tr := fakeFile{Version: v, Format: sf, Entries: small(30)}.build()
		cut := tr.ends[20] + 4
		name := writeFile(t, "x.iet", tr.b[:cut])
		f, err := Open(name, nil)
		must(t, err)
		defer f.Close()
		check := func() {
			t.Helper()
			if f.Len() != 21 || f.Size() != int64(cut) || f.WholeSize() != int64(tr.ends[20]) {
				t.Errorf("%d entries, %d and %d bytes, want 21, %d and %d", f.Len(), f.Size(), f.WholeSize(), cut, tr.ends[20])
			}
			for id := range 21 {
				if raw, err := f.appendRaw(nil, uint32(id)); err != nil || !bytes.Equal(raw, tr.raws[id].b) {
					t.Errorf("entry %d: %v, or other bytes", id, err)
				}
			}
			if _, err := f.Entry(21); err == nil {
				t.Error("entry 21 was not whole")
			}
		}
		check()
		w, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
		must(t, err)
		must(t, expect.Err(w.Write(tr.b[cut:])))
		must(t, w.Close())
		check()
		now, err := Open(name, nil)
		must(t, err)
		defer now.Close()
		if now.Len() != 31 || now.Damage() != nil {
			t.Errorf("opened again: %d entries, %v, want 31", now.Len(), now.Damage())
		}
	})
}

// TestFollowByteByByte checks that Follow returns an entry when its last byte is written,
// and not before.
func TestFollowByteByByte(t *testing.T) {
	streams(t, func(t *testing.T, v Version, sf StorageFormat) {
		es := small(40)
		es = append(es, fakeEntry{TraceEntry: TraceEntry{Metadata: Metadata{Name: mapping.NameEnd}}})
		tr := fakeFile{Version: v, Format: sf, Entries: es}.build()
		name := writeFile(t, "x.iet", tr.b[:wire.MagicSize])
		w, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
		must(t, err)
		defer w.Close()
		fl, err := Follow(name, &FollowOptions{Poll: time.Hour})
		must(t, err)
		defer fl.Close()
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // Next returns entries that are in the file, but does not wait
		for size, next := wire.MagicSize+1, 0; size <= len(tr.b); size++ {
			must(t, expect.Err(w.Write(tr.b[size-1:size])))
			id, e, err := fl.Next(ctx)
			if n, _ := tr.wholeAt(size); n == next {
				expect.MustIs(t, err, context.Canceled, "%d bytes, %d entries whole: entry %d", size, n, id)
				continue
			}
			if err != nil || id != uint32(next) {
				t.Fatalf("%d bytes: entry %d, %v, want entry %d", size, id, err, next)
			}
			if raw := AppendTraceEntry(nil, v, e); !bytes.Equal(raw, tr.raws[next].b) {
				t.Fatalf("entry %d has other bytes", next)
			}
			next++
		}
		if _, _, err := fl.Next(ctx); !errors.Is(err, io.EOF) {
			t.Errorf("behind the entry that marks the end: %v, want io.EOF", err)
		}
	})
}

// TestFollowTakenBack checks that Follow can read a file from which the writer removes a part of an entry, because
// it cannot finish the entry.
func TestFollowTakenBack(t *testing.T) {
	streams(t, func(t *testing.T, v Version, sf StorageFormat) {
		long := fakeFile{Version: v, Format: sf, Entries: small(7)}.build()
		short := fakeFile{Version: v, Format: sf, Entries: append(small(6), small(1)[1])}.build()
		name := writeFile(t, "x.iet", long.b[:long.ends[7]-1])
		fl, err := Follow(name, &FollowOptions{Poll: time.Millisecond})
		must(t, err)
		defer fl.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		for range 7 {
			if _, _, err := fl.Next(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if id, _, err := fl.Next(ctx); err == nil {
			t.Fatalf("entry %d is not whole", id)
		}
		must(t, os.Truncate(name, int64(long.starts[7])))
		writeFile(t, name, short.b)
		ctx, cancel = context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		id, e, err := fl.Next(ctx)
		if err != nil || id != 7 || e.Metadata.Name != "e1" {
			t.Errorf("Next: entry %d, %+v, %v, want the entry that was written in its place", id, e, err)
		}
	})
}

func TestCloseWhileReading(t *testing.T) {
	eachKind(t, func(t *testing.T, v Version, sf StorageFormat) {
		tr := pages(v, sf)
		name := writeFile(t, "x", tr.b)
		for round := range 10 {
			f, err := Open(name, nil)
			must(t, err)
			var wg sync.WaitGroup
			for i := range 8 {
				wg.Go(func() {
					for n := i; ; n++ {
						id := 1 + n%(f.Len()-1)
						way := ways[n%len(ways)]
						got, err := way.read(f, uint32(id))
						if errors.Is(err, ErrClosed) {
							break
						}
						if err != nil || !bytes.Equal(got, tr.wantRaw(way.name, id)) {
							t.Errorf("%s of entry %d: %v, or other bytes", way.name, id, err)
							break
						}
					}
				})
			}
			var closers sync.WaitGroup
			var closed, again int
			var mu sync.Mutex
			time.Sleep(time.Duration(round) * 200 * time.Microsecond)
			for range 2 {
				closers.Go(func() {
					err := f.Close()
					mu.Lock()
					defer mu.Unlock()
					switch {
					case err == nil:
						closed++
					case errors.Is(err, ErrClosed):
						again++
					default:
						t.Errorf("Close: %v", err)
					}
				})
			}
			closers.Wait()
			wg.Wait()
			if closed != 1 || again != 1 {
				t.Errorf("%d times closed, %d times %v, want once each", closed, again, ErrClosed)
			}
			expect.Is(t, f.Close(), ErrClosed, "Close again")
		}
	})
}

func TestEverythingAfterClose(t *testing.T) {
	tr := fakeFile{Version: V2, Format: IET, Entries: fakes(4)}.build()
	f, err := Open(writeFile(t, "x.iet", tr.b), nil)
	must(t, err)
	must(t, f.Close())
	for what, call := range map[string]func() error{
		"Entry":     func() error { _, err := f.Entry(1); return err },
		"AppendRaw": func() error { _, err := f.appendRaw(nil, 1); return err },
		"Attribute": func() error { _, _, err := f.Attribute(1, "a"); return err },
		"Walk":      func() error { return f.Walk(0, func(uint32, *TraceEntry) error { return nil }) },
		"Close":     func() error { return f.Close() },
	} {
		expect.Is(t, call(), ErrClosed, "%s", what)
	}
}

func TestRenamedOver(t *testing.T) {
	notOnWindows(t)
	eachKind(t, func(t *testing.T, v Version, sf StorageFormat) {
		tr := pages(v, sf)
		dir := t.TempDir()
		name := writeFile(t, filepath.Join(dir, "x"), tr.b)
		f, err := Open(name, nil)
		must(t, err)
		defer f.Close()
		fl, err := Follow(name, &FollowOptions{Poll: time.Millisecond})
		must(t, err)
		defer fl.Close()
		now := fakeFile{Version: V1 + V2 - v, Format: IET, Entries: small(3)}.build()
		must(t, os.Rename(writeFile(t, filepath.Join(dir, "new"), now.b), name))
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		for id := range tr.raws {
			if raw, err := f.appendRaw(nil, uint32(id)); err != nil || !bytes.Equal(raw, tr.raws[id].b) {
				t.Errorf("entry %d of the old file: %v, or other bytes", id, err)
			}
			if _, e, err := fl.Next(ctx); err != nil || !bytes.Equal(AppendTraceEntry(nil, v, e), tr.raws[id].b) {
				t.Fatalf("entry %d of the old file, followed: %v, or other bytes", id, err)
			}
		}
		if _, _, err := fl.Next(ctx); sf != ET && !errors.Is(err, ErrTruncated) {
			t.Errorf("Follow of a file that was replaced before its clean end: %v, want %v", err, ErrTruncated)
		}
		g, err := Open(name, nil)
		must(t, err)
		defer g.Close()
		if g.Len() != 4 || g.Version() == v {
			t.Errorf("the new file has %d entries of version %d, want 4 of the other", g.Len(), g.Version())
		}
	})
}
