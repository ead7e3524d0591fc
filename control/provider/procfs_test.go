package provider

import (
	"math"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

func some(n uint64) maybe { return maybe{n, true} }

func TestParseFields(t *testing.T) {
	type want = map[statistic]uint64
	tests := []struct {
		name, text string
		sep        byte
		fields     map[string]statistic
		want       want
	}{
		{"whole", "Name:\tVmRSS: 7 kB\nVmSize:\t    3060 kB\nVmHWM:\t 1736 kB\nVmRSS:\t 1700 kB\nVmSwap:\t 0 kB\nThreads:\t12\n", ':', statusFields, want{
			virtual: 3060 << 10, resident: 1700 << 10, peak: 1736 << 10, swap: 0, threads: 12,
		}},
		{"kernel thread", "Name:\tkthreadd\nThreads:\t1\n", ':', statusFields, want{threads: 1}},
		{"cut", "VmSize:\t3060 kB\nVmRSS:\t17", ':', statusFields, want{virtual: 3060 << 10}},
		{"unit", "VmSize:\t3060 MB\nVmRSS:\tmany kB\nThreads: -1", ':', statusFields, nil},
		{"large", "VmSize: 18014398509481983 kB\nVmRSS: 18014398509481984 kB\nVmSwap: 99999999999999999999 kB", ':', statusFields, want{virtual: math.MaxUint64 &^ 1023}},
		{"empty", "", ':', statusFields, nil},
		{"io", "rchar: 7279\nread_bytes: 5\nwrite_bytes: 4096\nwchar: 9\n", ':', ioFields, want{bytesRead: 5, bytesWritten: 4096}},
		{
			"cpu.stat", "usage_usec 17\nuser_usec 9\nnr_periods 3\nnr_throttled 2\nthrottled_usec 18446744073709551615\n", ' ', cpuFields,
			want{groupTime: 17, throttledTime: math.MaxUint64, throttledPeriods: 2},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got, want usage
			for i, n := range tt.want {
				want[i] = some(n)
			}
			got.parse([]byte(tt.text), tt.sep, tt.fields)
			expect.Equal(t, got, want, "parse")
		})
	}
}

func TestParseCgroup(t *testing.T) {
	tests := []struct{ text, want string }{
		{"0::/\n", "/"},
		{"0::/system.slice/app.service", "/system.slice/app.service"},
		{"9:name=systemd:/\n1:cpu:/a\n0::/b\n", "/b"},
		{"0::/../../etc\n", "/etc"},
		{"0::/../a/../../..\n", "/"},
		{"1:cpu:/a\n", ""},
		{"0::", ""},
		{"", ""},
	}
	for _, tt := range tests {
		if got, ok := parseCgroup([]byte(tt.text)); got != tt.want || ok != (tt.want != "") {
			t.Errorf("parseCgroup(%q) = %q, %v, want %q", tt.text, got, ok, tt.want)
		}
	}
}

func TestDecimal(t *testing.T) {
	for text, want := range map[string]maybe{
		"0": some(0), " 12\n": some(12), "18446744073709551615": some(math.MaxUint64),
		"18446744073709551616": {}, "": {}, "max\n": {}, "1 2": {}, "-1": {}, "+1": {}, "0x1": {},
	} {
		expect.Equal(t, decimal([]byte(text)), want, "decimal(%q)", text)
	}
}

// FuzzProc checks that no parser panics, and that the folder of the cgroup is not outside of the mount
// point.
func FuzzProc(f *testing.F) {
	f.Add([]byte("VmSize:\t3060 kB\nThreads:\t1\nread_bytes: 5\nusage_usec 1\n0::/a/../..\n"))
	f.Add([]byte(":\n:1\n \n::/\n0::/\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var u usage
		u.parse(b, ':', statusFields)
		u.parse(b, ':', ioFields)
		u.parse(b, ' ', cpuFields)
		dir, ok := parseCgroup(b)
		if ok && !strings.HasPrefix(dir, "/") || strings.Contains(dir+"/", "/../") {
			t.Errorf("cgroup %q", dir)
		}
		if m := decimal(b); !m.ok && m.n != 0 {
			t.Errorf("decimal gives %v", m)
		}
	})
}
