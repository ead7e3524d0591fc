package osfile

import "golang.org/x/sys/unix"

// Populate prepares the pages of the mapped memory b for writing. The system then handles the page faults of all
// pages in one call, in a quarter of the time of single faults. Populate is only a hint. It needs Linux 5.14, and a
// page that was lost still faults when it is written.
func Populate(b []byte) { _ = unix.Madvise(b, unix.MADV_POPULATE_WRITE) }
