package osfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// Populate prepares the pages of the mapped memory b for writing. The system then handles the page faults of all
// pages in one call, in a quarter of the time of single faults. Populate is only a hint. It needs Linux 5.14, and a
// page that was lost still faults when it is written.
func Populate(b []byte) { _ = unix.Madvise(b, unix.MADV_POPULATE_WRITE) }

// Forget takes the pages before m[end] out of the memory of the process, from about the offset from on. m is the memory
// map of a file that is only read, and the system maps the pages again when they are needed. It then maps up to 2 MiB
// around a page, so Forget begins earlier than from, and leaves the page at the end.
func Forget(m []byte, from, end int) {
	from, end = max(from>>21-1, 0)<<21, end&^(os.Getpagesize()-1)
	_ = unix.Madvise(m[from:max(from, end)], unix.MADV_DONTNEED)
}
