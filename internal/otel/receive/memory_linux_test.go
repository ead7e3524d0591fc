//go:build !race

package receive_test

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/entrace-go/entrace/internal/otel/codec"
	"github.com/entrace-go/entrace/internal/otel/receive"
)

// requestOf returns a request with one span that has the given field n times.
func requestOf(field protowire.Number, content []byte, n int) []byte {
	bytesField := func(b []byte, n protowire.Number, v []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
	}
	span := bytesField(bytesField(nil, 1, []byte("0123456789abcdef")), 2, []byte("01234567"))
	for range n {
		span = bytesField(span, field, content)
	}
	return bytesField(nil, 1, bytesField(nil, 2, bytesField(nil, 2, span)))
}

// TestManyValuesTakeLittleMemory sends requests that need far more memory than their size. They must be recorded
// one after the other, or refused. It runs in a child process, to measure the peak of only these requests.
func TestManyValuesTakeLittleMemory(t *testing.T) {
	const child, most = "ENTRACE_TEST_VALUES", 250 << 20
	if os.Getenv(child) == "" {
		for _, n := range []int{60_000, 1_000_000} {
			for _, field := range []string{"9", "11"} { // attributes and events
				c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
				c.Env = append(os.Environ(), child+"="+field+" "+strconv.Itoa(n))
				if out, err := c.CombinedOutput(); err != nil {
					t.Errorf("%d times field %s: %v\n%s", n, field, err, out)
				}
			}
		}
		return
	}
	m := regexp.MustCompile(`(\d+) (\d+)`).FindStringSubmatch(os.Getenv(child))
	field, _ := strconv.Atoi(m[1])
	n, _ := strconv.Atoi(m[2])
	b := requestOf(protowire.Number(field), nil, n)
	f := newFiles(t, receive.FolderOptions{})
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			done, err := f.Take(context.Background(), codec.Spans, codec.Protobuf, b)
			if err == nil && done.Taken+done.Refused != 1 || n > 1<<16 && done.Taken > 0 {
				t.Errorf("%+v, %v", done, err)
			}
		})
	}
	all.Wait()
	f.Close(context.Background())
	if peak := statusOf(t, os.Getpid(), "VmHWM"); peak > most {
		t.Errorf("the peak is %d MiB", peak>>20)
	}
}
