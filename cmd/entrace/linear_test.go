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

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

// TestWorkIsLinear checks that four times the entries take four times the work, and hardly more. It does not measure
// time: it builds the command with coverage counters, and adds up how often each block of our code runs. With
// ENTRACE_SOAK it runs every command, and also counts the blocks of packages slices, sort and maps.
func TestWorkIsLinear(t *testing.T) {
	t.Parallel()
	soak := os.Getenv("ENTRACE_SOAK") != ""
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip(err) // wine has no go command
	}
	if testing.Short() || tracetest.Race {
		t.Skip("it builds the command")
	}
	dir := t.TempDir()
	exe := filepath.Join(dir, "entrace.exe") // Windows needs the extension
	packages := "github.com/entrace-go/entrace/..."
	if soak {
		packages += ",slices,sort,maps"
	}
	// Without optimization and debug information, the build takes half the time, and the counters count the same.
	build := exec.CommandContext(t.Context(), "go", "build", "-cover", "-covermode=count", "-coverpkg="+packages,
		"-gcflags=github.com/entrace-go/entrace/...=-N -l -dwarf=false", "-ldflags=-s -w", "-o", exe, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// go tool takes longer to find the tool than the tool runs.
	covdata, err := exec.CommandContext(t.Context(), "go", "tool", "-n", "covdata").Output()
	must(t, err)
	work := func(args ...string) (n int) {
		t.Helper()
		counts := t.TempDir()
		cmd := exec.CommandContext(t.Context(), exe, args...)
		cmd.Env = append(os.Environ(), "GOCOVERDIR="+counts)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %.1000s", args, err, out)
		}
		text := filepath.Join(counts, "text")
		if out, err := exec.CommandContext(t.Context(), strings.TrimSpace(string(covdata)), "textfmt", "-i="+counts, "-o="+text).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for line := range strings.Lines(string(read(t, text))) {
			count, _ := strconv.Atoi(strings.TrimSpace(line[strings.LastIndexByte(line, ' ')+1:])) // the first line has none
			n += count
		}
		if n == 0 {
			t.Fatalf("%q: nothing was counted", args)
		}
		return n
	}
	n, most := 1000, 4.5
	if soak {
		n, most = 2000, 5.5 // sorting takes n log n steps
	}
	// compare runs a command on the files that write makes for two numbers of entries.
	compare := func(t *testing.T, command string, write func(n int) (files []string)) {
		t.Helper()
		count := func(n int) int {
			args := strings.Fields(command)
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "OUT", filepath.Join(t.TempDir(), "x"))
			}
			if args[0] == "convert" { // convert has the input before the output
				return work(append(args[:1], append(write(n), args[1:]...)...)...)
			}
			return work(append(args, write(n)...)...)
		}
		if small, large := float64(count(n)), float64(count(4*n)); large > small*most {
			t.Errorf("%s: %d entries take %.0f steps, %d take %.0f, which is %.1f times as much", command, n, small, 4*n, large, large/small)
		}
	}
	all := strings.Split("info,tree --depth 100,verify,cat,tail,merge -o OUT.et", ",")
	for _, f := range convert.Formats() {
		if f.Writes && f.Format != convert.GoTrace { // GoTrace needs an execution trace
			all = append(all, "convert - --to "+string(f.Format))
		}
	}
	// Each shape of trace runs the commands whose work depends on it most.
	for shape, x := range map[string]struct {
		entry    func(i int) *format.TraceEntry
		commands string
	}{
		"services": {func(i int) *format.TraceEntry {
			return tracetest.Resource(fmt.Sprintf("service %07d", i))
		}, "info,convert - --to otlp"},
		"a chain": {func(i int) *format.TraceEntry { return spanOf(i, i) }, "tree --depth 100,convert - --to otlp"},
		"one span below the other, the last first": {func(i int) *format.TraceEntry { return below(spanOf(i, 0), i+1) }, "merge -o OUT.et,tail"},
		"one id": {func(int) *format.TraceEntry { return spanOf(1, 0) }, "verify,convert - --to chrome"},
		"links of one span": {func(i int) *format.TraceEntry {
			if i == 0 {
				return spanOf(0, 0)
			}
			return tracetest.Below(1, tracetest.Entry(mapping.NameLink, mapping.AttrLinkTraceID, strings.Repeat("ab", 16), mapping.AttrLinkSpanID, spanID(i)))
		}, "convert - --to chrome,convert - --to parquet"},
		"names": {func(i int) *format.TraceEntry {
			e := spanOf(i, 0)
			e.Metadata.Name = fmt.Sprint("name ", i)
			return e
		}, "convert - --to folded"},
	} {
		t.Run(shape, func(t *testing.T) {
			commands := strings.Split(x.commands, ",")
			if soak {
				commands = all
			}
			for _, command := range commands {
				compare(t, command, func(n int) []string {
					name := filepath.Join(t.TempDir(), "x.iet")
					writeEntries(t, name, n, x.entry)
					return []string{name}
				})
			}
		})
	}
	// Formats that entrace can only read need other shapes: a part that many spans share, and a span with many
	// items.
	for from, x := range map[string]struct{ head, item, between, tail, item2, tail2 string }{
		"jaeger": {
			`{"data":[{"spans":[`, `{"traceID":"1","spanID":"%x","processID":"p","references":[{"refType":"CHILD_OF","traceID":"1","spanID":"1"}]}`, ",",
			`],"processes":{"p":{"serviceName":"s","tags":[`, `{"key":"k%d","value":1}`, `]}}}]}`,
		},
		"zipkin": {
			`[`, `{"traceId":"1","id":"%x","parentId":"1","localEndpoint":{"serviceName":"s"}}`, ",",
			`,{"traceId":"1","id":"1","tags":{`, `"k%d":"v"`, `}}]`,
		},
		"stdouttrace": {
			``, `{"Name":"%x","SpanContext":{"TraceID":"01","SpanID":"02"}}`, "\n",
			`{"Name":"last","Attributes":[`, `{"Key":"k%d","Value":{"Type":"INT64","Value":1}}`, `]}`,
		},
	} {
		t.Run("from "+from, func(t *testing.T) {
			compare(t, "convert - --to iet --from "+from, func(n int) []string {
				var b strings.Builder
				list := func(item, between string) {
					for i := range n {
						if i > 0 {
							b.WriteString(between)
						}
						fmt.Fprintf(&b, item, i+2)
					}
				}
				b.WriteString(x.head)
				list(x.item, x.between)
				b.WriteString(x.tail)
				list(x.item2, ",")
				b.WriteString(x.tail2)
				name := filepath.Join(t.TempDir(), "x.json")
				must(t, os.WriteFile(name, []byte(b.String()), 0o600))
				return []string{name}
			})
		})
	}
	t.Run("ended spans in a chain of open ones", func(t *testing.T) {
		compare(t, "top", func(n int) []string {
			name := filepath.Join(t.TempDir(), "open.iet")
			writeEntries(t, name, 2*n, func(i int) *format.TraceEntry {
				if i%2 == 0 {
					open := spanOf(i, max(i-1, 0))
					open.Attributes = open.Attributes[:3]
					return open
				}
				leaf := spanOf(i, i)
				leaf.Attributes[3].Value = format.U64Value(uint64(i/2 + 1))
				return leaf
			})
			return []string{name}
		})
	})
	t.Run("rings of two traces", func(t *testing.T) {
		// The first trace is a chain of spans. Each span names a span of the second trace as
		// its parent, and that span names the first one as its own parent.
		compare(t, "merge -o OUT.et", func(n int) []string {
			dir := t.TempDir()
			last, chain, other := filepath.Join(dir, "last.iet"), filepath.Join(dir, "chain.iet"), filepath.Join(dir, "other.iet")
			writeEntries(t, last, 1, func(int) *format.TraceEntry { return below(spanOf(3*n, 0), n+n-1) })
			writeEntries(t, chain, 2*n, func(i int) *format.TraceEntry {
				if i%2 == 0 {
					return tracetest.Below(uint32(i), tracetest.Entry("between"))
				}
				return below(spanOf(n+i/2, i), 2*n+i/2)
			})
			writeEntries(t, other, n, func(i int) *format.TraceEntry { return below(spanOf(2*n+i, 0), n+i) })
			return []string{last, chain, other}
		})
	})
}

// writeEntries writes an IET with the root and n entries.
func writeEntries(t *testing.T, name string, n int, entry func(i int) *format.TraceEntry) {
	t.Helper()
	b := format.AppendTraceEntry(wire.AppendMagic(nil, format.V1, format.IET), format.V1, format.Root())
	for i := range n {
		b = format.AppendTraceEntry(b, format.V1, entry(i))
	}
	must(t, os.WriteFile(name, b, 0o600))
}

// below makes e a child of the span up.
func below(e *format.TraceEntry, up int) *format.TraceEntry {
	e.Add(format.AttrParentSpanID, format.StringValue(spanID(up)))
	return e
}

func spanID(i int) string { return hex.EncodeToString(fmt.Appendf(nil, "%08d", i)) }

// spanOf returns a span with the id i that takes one second.
func spanOf(i, parent int) *format.TraceEntry {
	return tracetest.Below(uint32(parent), tracetest.Entry("span",
		format.AttrTraceID, strings.Repeat("ab", 16),
		format.AttrSpanID, spanID(i),
		format.AttrTime, 1_700_000_000_000_000_000+uint64(i),
		format.AttrDuration, uint64(1e9),
	))
}
