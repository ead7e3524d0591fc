// Package hosttest helps tests that depend on the machine. It can run a test in a separate process, limit the size
// of files, make a folder in memory, find strace, and count allocations.
package hosttest
