// Package hosttest helps tests that depend on the machine: with a process of their own, a
// limit on the size of files, a folder in memory, strace, and a count of allocations.
package hosttest
