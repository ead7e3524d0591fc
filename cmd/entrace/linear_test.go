package main

import (
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/mapping"
	"github.com/entrace-go/entrace/internal/wire"
)

// TestWorkIsLinear checks that four times the entries take four times the work, with
// some room for a logarithm. It does not measure time: it builds the command with
// coverage counters and adds up how often each block of our code and of packages slices,
// sort and maps runs.
func TestWorkIsLinear(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err) // wine has none
	}
	dir := t.TempDir()
	exe := filepath.Join(dir, "entrace.exe") // Windows wants the extension
	build := exec.CommandContext(t.Context(), "go", "build", "-cover", "-covermode=count",
		"-coverpkg=github.com/entrace-go/entrace/...,slices,sort,maps", "-o", exe, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	work := func(args ...string) (n int) {
		t.Helper()
		counts := t.TempDir()
		cmd := exec.CommandContext(t.Context(), exe, args...)
		cmd.Env = append(os.Environ(), "GOCOVERDIR="+counts)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %.1000s", args, err, out)
		}
		text := filepath.Join(counts, "text")
		if out, err := exec.CommandContext(t.Context(), "go", "tool", "covdata", "textfmt", "-i="+counts, "-o="+text).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for line := range strings.Lines(string(read(t, text))) {
			if count, err := strconv.Atoi(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:])); err == nil {
				n += count
			}
		}
		if n == 0 {
			t.Fatalf("%q: nothing was counted", args)
		}
		return n
	}
	write := func(name string, entries ...*format.TraceEntry) string {
		name = filepath.Join(dir, name)
		b := format.AppendTraceEntry(wire.AppendMagic(nil, format.V1, format.IET), format.V1, format.Root())
		for _, e := range entries {
			b = format.AppendTraceEntry(b, format.V1, e)
		}
		must(t, os.WriteFile(name, b, 0o600))
		return name
	}
	const n = 2000
	check := func(t *testing.T, what string, small, large int) {
		t.Helper()
		if large > small*11/2 {
			t.Errorf("%s: %d entries take %d steps, %d take %d, which is %.1f times as much", what, n, small, 4*n, large, float64(large)/float64(small))
		}
	}
	for shape, entry := range map[string]func(i int) *format.TraceEntry{
		"services": func(i int) *format.TraceEntry {
			return &format.TraceEntry{Message: format.Some(fmt.Sprintf("service %07d", i)), Metadata: format.Metadata{Name: format.NameResource}}
		},
		"a chain": func(i int) *format.TraceEntry { return spanOf(i, i) },
		"one span below the other, the last first": func(i int) *format.TraceEntry {
			return below(spanOf(i, 0), i+1)
		},
		"one id": func(int) *format.TraceEntry { return spanOf(1, 0) },
		"links of one span": func(i int) *format.TraceEntry {
			if i == 0 {
				return spanOf(0, 0)
			}
			return &format.TraceEntry{Parent: 1, Metadata: format.Metadata{Name: mapping.NameLink}, Attributes: []format.Attribute{
				{Name: mapping.AttrLinkTraceID, Value: format.StringValue(strings.Repeat("ab", 16))}, {Name: mapping.AttrLinkSpanID, Value: format.StringValue(spanID(i))},
			}}
		},
		"names": func(i int) *format.TraceEntry {
			e := spanOf(i, 0)
			e.Metadata.Name = fmt.Sprint("name ", i)
			return e
		},
	} {
		t.Run(shape, func(t *testing.T) {
			var entries []*format.TraceEntry
			for i := range 4 * n {
				entries = append(entries, entry(i))
			}
			small, large := write(shape+"1.iet", entries[:n]...), write(shape+"4.iet", entries...)
			for _, command := range []string{
				"info", "tree --depth 100", "verify", "cat", "tail", "merge", "convert --to et -", "convert --to otlp -", "convert --to otlp-proto -",
				"convert --to heph -", "convert --to measureme -", "convert --to parquet -", "convert --to perfetto -", "convert --to chrome -",
				"convert --to folded -", "convert --to speedscope -",
			} {
				args := strings.Fields(command)
				run := func(name string) int {
					switch args[0] {
					case "convert":
						return work("convert", "--to", args[2], name, "-")
					case "merge":
						return work("merge", name, name, "-o", filepath.Join(t.TempDir(), "x.et"))
					}
					return work(append(args, name)...)
				}
				check(t, command, run(small), run(large))
			}
		})
	}
	t.Run("ended spans in a chain of open ones", func(t *testing.T) {
		chain := func(n int) int {
			var entries []*format.TraceEntry
			for i := range n {
				open, leaf := spanOf(2*i, max(2*i-1, 0)), spanOf(2*i+1, 2*i+1)
				open.Attributes = open.Attributes[:3]
				leaf.Attributes[3].Value = format.U64Value(uint64(i + 1))
				entries = append(entries, open, leaf)
			}
			return work("top", write("open.iet", entries...))
		}
		check(t, "top", chain(n), chain(4*n))
	})
	t.Run("rings of two traces", func(t *testing.T) {
		// The first trace is a chain of spans. Each of them names a span of the second
		// trace as its parent, which names it as its parent in turn.
		rings := func(n int) int {
			var chain, other []*format.TraceEntry
			for i := range n {
				chain = append(chain, &format.TraceEntry{Parent: uint32(2 * i), Metadata: format.Metadata{Name: "between"}}, below(spanOf(n+i, 2*i+1), 2*n+i))
				other = append(other, below(spanOf(2*n+i, 0), n+i))
			}
			last := write("last.iet", below(spanOf(3*n, 0), n+n-1))
			return work("merge", last, write("chain.iet", chain...), write("other.iet", other...), "-o", filepath.Join(t.TempDir(), "x.et"))
		}
		check(t, "merge", rings(n), rings(4*n))
	})
}

// below makes e a child of the span up.
func below(e *format.TraceEntry, up int) *format.TraceEntry {
	e.Attributes = append(e.Attributes, format.Attribute{Name: format.AttrParentSpanID, Value: format.StringValue(spanID(up))})
	return e
}

func spanID(i int) string { return hex.EncodeToString(fmt.Appendf(nil, "%08d", i)) }

// spanOf returns a span with the id i that takes one second.
func spanOf(i, parent int) *format.TraceEntry {
	return &format.TraceEntry{Parent: uint32(parent), Metadata: format.Metadata{Name: "span"}, Attributes: []format.Attribute{
		{Name: format.AttrTraceID, Value: format.StringValue(strings.Repeat("ab", 16))},
		{Name: format.AttrSpanID, Value: format.StringValue(spanID(i))},
		{Name: format.AttrTime, Value: format.U64Value(1_700_000_000_000_000_000 + uint64(i))},
		{Name: format.AttrDuration, Value: format.U64Value(1e9)},
	}}
}
