// Package hosttest gives tests what they need of the machine: a process of their own, a
// limit on the size of files, a folder in memory, strace, and a count of allocations.
package hosttest
