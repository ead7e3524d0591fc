package journal

import (
	"bytes"
	"os/signal"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

// TestKillBetweenPagesDamagesNothing interrupts the pwrite of a record at each page boundary, as a kill does. The
// record must be missing, the record before it must be readable, and no segment may count as damaged. The limit
// RLIMIT_FSIZE interrupts the pwrite.
func TestKillBetweenPagesDamagesNothing(t *testing.T) {
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var unlimited unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &unlimited))
	const size = 3 * pageSize
	for _, x := range []struct {
		name   string
		append func(*Segment) error
	}{
		{"record", func(s *Segment) error {
			_, err := s.append(record(1, 2, size, false))
			return err
		}},
		{"part of a chain", func(s *Segment) error { return s.appendPart(make([]byte, size), chainMore) }},
	} {
		t.Run(x.name, func(t *testing.T) {
			name := hosttest.Path(t, "j")
			j := create(t, Options{Medium: Written, Name: name, Segments: 2})
			s, err := j.pool.take(StreamSpans, 0)
			must(t, err)
			// Bytes of an earlier use must not be read as a record.
			must(t, s.appendPart(bytes.Repeat([]byte{0xff}, maxPart-8), 0))
			must(t, s.begin(StreamSpans, 0))
			must(t, expect.Err(s.append(record(1, 1, 100, false))))
			end := s.End()
			for cut := pageSize; cut < end+size; cut += pageSize {
				limit := unix.Rlimit{Cur: uint64(s.off) + uint64(cut), Max: unlimited.Max}
				must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &limit))
				err := x.append(s)
				must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unlimited))
				if err == nil {
					t.Fatalf("cut at %d: the pwrite was not cut short", cut)
				}
				d := dead(t, name, everything)
				expect.Equal(t, d.Damaged, 0, "cut at %d: segments damaged", cut)
				if parts := d.Parts(StreamSpans); len(parts) != 1 || parts[0].End != end {
					t.Errorf("cut at %d: the parts are %+v, want one that ends at %d", cut, parts, end)
				}
			}
			must(t, x.append(s))
			d := dead(t, name, everything)
			if parts := d.Parts(StreamSpans); d.Damaged != 0 || len(parts) != 1 || parts[0].End != s.End() {
				t.Errorf("%d segments are damaged, the parts are %+v, want one that ends at %d", d.Damaged, parts, s.End())
			}
		})
	}
}
