package format_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/entrybytes"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

func sampleEntry(attrs int) *format.TraceEntry {
	e := &format.TraceEntry{
		Parent:   1234,
		Message:  format.Some("request handled by the upstream"),
		Metadata: format.Metadata{Name: "event main.go:123", Target: "example.com/shop", Level: format.LevelInfo, File: format.Some("/src/shop/main.go"), Line: format.Some(uint32(123))},
	}
	for i := range attrs {
		v := format.StringValue("/api/v1/tenants/4711/carts")
		if i%2 == 0 {
			v = format.U64Value(uint64(i) * 12345678)
		}
		e.Add(fmt.Sprintf("attribute.%02d", i), v)
	}
	return e
}

func BenchmarkAppendTraceEntry(b *testing.B) {
	for _, v := range []format.Version{format.V1, format.V2} {
		for _, n := range []int{2, 10} {
			b.Run(fmt.Sprintf("version=%d/attrs=%d", v, n), func(b *testing.B) {
				e := sampleEntry(n)
				buf := format.AppendTraceEntry(nil, v, e)
				b.ReportAllocs()
				b.SetBytes(int64(len(buf)))
				for b.Loop() {
					buf = format.AppendTraceEntry(buf[:0], v, e)
				}
			})
		}
	}
}

func BenchmarkDecodeTraceEntry(b *testing.B) {
	for _, v := range []format.Version{format.V1, format.V2} {
		for _, n := range []int{2, 10} {
			b.Run(fmt.Sprintf("version=%d/attrs=%d", v, n), func(b *testing.B) {
				buf := format.AppendTraceEntry(nil, v, sampleEntry(n))
				var e format.TraceEntry
				b.ReportAllocs()
				b.SetBytes(int64(len(buf)))
				for b.Loop() {
					if _, err := format.DecodeTraceEntry(buf, v, &e); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// million writes an IET of a million entries, ten for each span, and returns its name.
func million(b *testing.B) string { return millionOf(b, format.V1) }

func millionOf(b *testing.B, v format.Version) string {
	b.Helper()
	name := hosttest.Path(b, "million.iet")
	f, err := os.Create(name)
	must(b, err)
	w := bufio.NewWriterSize(f, 1<<20)
	buf := format.AppendTraceEntry(wire.AppendMagic(nil, v, format.IET), v, format.Root())
	e := sampleEntry(10)
	for i := uint32(1); i < 1_000_000; i++ {
		e.Parent = i / 10
		buf = format.AppendTraceEntry(buf, v, e)
		_, err := w.Write(buf)
		must(b, err)
		buf = buf[:0]
	}
	must(b, w.Flush())
	must(b, f.Close())
	return name
}

// BenchmarkFinalize makes an ET of a million entries. For comparison, it also measures a copy of the IET with a
// sync of source and copy.
func BenchmarkFinalize(b *testing.B) {
	iet := million(b)
	fi, err := os.Stat(iet)
	must(b, err)
	out := filepath.Join(filepath.Dir(iet), "out")
	b.Run("entries=1000000/entrace", func(b *testing.B) {
		b.SetBytes(fi.Size())
		for b.Loop() {
			must(b, format.Finalize(b.Context(), iet, out, nil))
			b.StopTimer()
			must(b, os.Remove(out))
			b.StartTimer()
		}
	})
	b.Run("entries=1000000/cp+fsync", func(b *testing.B) {
		b.SetBytes(fi.Size())
		for b.Loop() {
			copyAndSync(b, iet, out)
			b.StopTimer()
			must(b, os.Remove(out))
			b.StartTimer()
		}
	})
}

func copyAndSync(b *testing.B, from, to string) {
	src, err := os.OpenFile(from, os.O_RDWR, 0)
	must(b, err)
	dst, err := os.Create(to)
	must(b, err)
	_, err = io.Copy(dst, src)
	must(b, err)
	must(b, src.Sync())
	must(b, dst.Sync())
	must(b, src.Close())
	must(b, dst.Close())
}

// BenchmarkOpen opens files of a million entries.
func BenchmarkOpen(b *testing.B) {
	iet := million(b)
	et := filepath.Join(filepath.Dir(iet), "million.et")
	must(b, format.Finalize(b.Context(), iet, et, nil))
	for _, name := range []string{et, iet} {
		b.Run("entries=1000000"+filepath.Ext(name), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f, err := format.Open(name, nil)
				must(b, err)
				must(b, f.Close())
			}
		})
	}
}

const benchEntries = 100_000

// benchFile returns a trace of benchEntries, and the name of its file.
func benchFile(b *testing.B, f format.StorageFormat) (name string, trace []byte) {
	b.Helper()
	var out bytes.Buffer
	w, err := format.NewWriter(&out, format.V1, f, nil)
	must(b, err)
	_, err = w.Write(format.Root())
	must(b, err)
	e := sampleEntry(10)
	for i := uint32(1); i < benchEntries; i++ {
		e.Parent = i / 10
		_, err := w.Write(e)
		must(b, err)
	}
	must(b, w.Close())
	name = hosttest.Path(b, "x."+f.String())
	must(b, os.WriteFile(name, out.Bytes(), 0o600))
	return name, out.Bytes()
}

// BenchmarkReader reads all entries.
func BenchmarkReader(b *testing.B) {
	for _, f := range []format.StorageFormat{format.ET, format.IET, format.IETPrefix} {
		b.Run("format="+f.String(), func(b *testing.B) {
			_, trace := benchFile(b, f)
			b.ReportAllocs()
			b.SetBytes(int64(len(trace)))
			for b.Loop() {
				r, err := format.NewReader(bytes.NewReader(trace), nil)
				for err == nil {
					_, err = r.Next()
				}
				if !errors.Is(err, io.EOF) {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFollow reads all entries of a file with Follow.
func BenchmarkFollow(b *testing.B) {
	name, trace := benchFile(b, format.IET)
	b.ReportAllocs()
	b.SetBytes(int64(len(trace)))
	for b.Loop() {
		fl, err := format.Follow(name, nil)
		must(b, err)
		for range benchEntries {
			_, _, err := fl.Next(b.Context())
			must(b, err)
		}
		must(b, fl.Close())
	}
}

// BenchmarkFileGrow opens a file with a few entries, and then reads the entries that are added to the file.
func BenchmarkFileGrow(b *testing.B) {
	_, trace := benchFile(b, format.IET)
	grown := hosttest.Path(b, "grown.iet")
	b.ReportAllocs()
	b.SetBytes(int64(len(trace)))
	for b.Loop() {
		b.StopTimer()
		must(b, os.WriteFile(grown, trace[:len(trace)/100], 0o600))
		f, err := format.Open(grown, nil)
		must(b, err)
		must(b, os.WriteFile(grown, trace, 0o600))
		b.StartTimer()
		must(b, entrybytes.Of(f).Grow(b.Context()))
		b.StopTimer()
		if f.Len() != benchEntries {
			b.Fatal(f.Len())
		}
		must(b, f.Close())
		b.StartTimer()
	}
}
