package traces

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

func TestFileNameAscends(t *testing.T) {
	f := folderOf(t)
	start := time.Now()
	var names []string
	for range 5000 { // the clock jumps, mostly back
		name := f.NewName(start.Add(time.Duration(rand.Int64N(int64(time.Minute)))-time.Hour), "slow-checkout", rand.N(2) == 0)
		n, ok := parseFileName(name)
		if !ok || n.String() != name || n.config != "slow-checkout" {
			t.Fatalf("parseFileName(%q) = %+v, %v", name, n, ok)
		}
		names = append(names, name)
	}
	if !slices.IsSorted(names) || len(slices.Compact(names)) != 5000 {
		t.Error("the names do not ascend")
	}
	last, _ := parseFileName(names[len(names)-1])
	for _, at := range []time.Time{{}, time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC)} {
		n, ok := parseFileName(f.NewName(at, "c", false))
		if !ok || n.time.Sub(last.time) != time.Microsecond {
			t.Errorf("after %v the name of %v has %v, want one microsecond later", last.time, at, n.time)
		}
		last = n
	}
	if n, _ := parseFileName(f.NewName(last.time.Add(time.Second), "c", false)); n.time != last.time.Add(time.Second) {
		t.Errorf("a time that is later is not kept: %v", n.time)
	}
}

func TestFileNameConcurrent(t *testing.T) {
	f := folderOf(t)
	var mu sync.Mutex
	seen := make(map[string]bool)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				name := f.NewName(folderDay, "c", false)
				mu.Lock()
				if seen[name] {
					t.Errorf("%s comes twice", name)
				}
				seen[name] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

// TestFileNameTaken checks that NewName returns no name of an existing file. An earlier process may have
// had the same pid.
func TestFileNameTaken(t *testing.T) {
	f := folderOf(t)
	for _, ext := range []string{".et", ".iet", ".iet.buffer"} {
		n, _ := parseFileName(f.NewName(time.Now(), "c", false))
		n.time = n.time.Add(time.Second)
		n.seq++
		must(t, os.WriteFile(f.path(strings.TrimSuffix(n.String(), ".et")+ext), nil, 0o600))
		got := f.NewName(n.time, "c", false)
		if got == n.String() {
			t.Errorf("%s is given while there is a %s", got, ext)
		}
	}
}

func TestFileNameEndOfTime(t *testing.T) {
	f := folderOf(t)
	fileNames.mu.Lock()
	was := fileNames.last
	fileNames.mu.Unlock()
	defer func() {
		fileNames.mu.Lock()
		fileNames.last = was
		fileNames.mu.Unlock()
	}()
	a := f.NewName(time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC), "c", false)
	b := f.NewName(time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC), "c", false)
	for _, s := range []string{a, b} {
		if _, ok := parseFileName(s); !ok || !strings.HasPrefix(s, "99991231T235959.999999Z-") {
			t.Errorf("the name is %s", s)
		}
	}
	if a == b {
		t.Errorf("%s comes twice", a)
	}
}

func TestParseFileName(t *testing.T) {
	full := traceName{time: folderDay, host: "web_1.example", pid: 4711, seq: 7, manual: true, config: "slow-checkout"}
	for s, want := range map[string]traceName{
		"20261120T212712.021345Z-web_1.example-4711-0007m-slow-checkout.et": full,
		"20261120T212712.021345Z-h-1-0001-crash.et":                         {time: folderDay, host: "h", pid: 1, seq: 1, config: "crash"},
		"20261120T212712.021345Z-h-1-0001-deep-crash.et":                    {time: folderDay, host: "h", pid: 1, seq: 1, config: "deep-crash"},
		"20261120T212712.021345Z-_-0-12345-a.et.et":                         {time: folderDay, host: "_", seq: 12345, config: "a.et"},
	} {
		if got, ok := parseFileName(s); !ok || got != want {
			t.Errorf("parseFileName(%q) = %+v, %v, want %+v", s, got, ok, want)
		}
		expect.Equal(t, want.String(), s, "String")
	}
	const good = "20261120T212712.021345Z-h-1-0001-c.et"
	if _, ok := parseFileName(good); !ok {
		t.Fatal("what is changed below is no name")
	}
	for _, c := range [][2]string{
		{good, ""},
		{good, "20261120T212712.021345Z"},
		{good, "20261120T212712.021345Z-.et"},
		{".et", ".iet"},
		{".et", ".ET"},
		{".et", ""},
		{".et", ".iet.broken"},
		{"20261120", "20261320"},
		{"20261120", "20260230"},
		{"T2127", "T2527"},
		{"021345Z", "02134Z"},
		{".021345", ",021345"},
		{"021345Z", "021345z"},
		{"Z-h", "Z+h"},
		{"-h-", "--"},
		{"-h-", "-é-"},
		{"-h-", "-a/b-"},
		{"-h-", "-" + strings.Repeat("h", 33) + "-"},
		{"-1-", "-01-"},
		{"-1-", "-+1-"},
		{"-1-", "-4294967296-"},
		{"-1-", "--"},
		{"0001", "001"},
		{"0001", "0000"},
		{"0001", "00001"},
		{"0001", "0001M"},
		{"0001", "0001mm"},
		{"0001", "m"},
		{"0001", "99999999999999999999"},
		{"-c.", "-."},
		{"-c.", "-../x."},
		{"-c.", "--c."},
		{"-c.", "-c\x00."},
		{"-c.", "-" + strings.Repeat("c", 65) + "."},
		{good, "./" + good},
		{good, good + "/"},
		{good, " " + good},
	} {
		s := strings.Replace(good, c[0], c[1], 1)
		if n, ok := parseFileName(s); ok {
			t.Errorf("parseFileName(%q) = %+v, want none", s, n)
		}
	}
}

func TestFileHost(t *testing.T) {
	for host, want := range map[string]string{
		"": "_", "web-1": "web_1", "a.b_C9": "a.b_C9", "ä": "__", "a/../b": "a_.._b", strings.Repeat("x", 40): strings.Repeat("x", 32),
	} {
		expect.Equal(t, fileHost(host), want, "fileHost(%q)", host)
	}
}

func FuzzParseFileName(f *testing.F) {
	for _, s := range []string{
		"20261120T212712.021345Z-h-1-0001-c.et", "20261120T212712.021345Z-h-1-0001m-c-crash.et",
		"00000101T000000.000000Z-_-0-18446744073709551615-c.et", "x", "20261120T212712,021345Z-h-1-0001-c.et",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, ok := parseFileName(s)
		if !ok {
			return
		}
		if n.String() != s {
			t.Errorf("%q becomes %q", s, n.String())
		}
		if filepath.Base(s) != s || !filepath.IsLocal(s) || strings.ContainsAny(s, `/\:"`) || !validName(n.config) {
			t.Errorf("%q is a name", s)
		}
	})
}
