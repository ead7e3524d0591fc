package text

import "strings"

// OfApplication reports whether a function belongs to an application. It returns false for functions of the
// runtime, of locks, of timers and of system calls, which only wait, or run other code.
func OfApplication(function string) bool {
	switch first, _, _ := strings.Cut(PackageOf(function), "/"); first {
	case "", "runtime", "internal", "sync", "syscall", "time":
		return false
	}
	return !strings.HasPrefix(function, "golang.org/x/sys/")
}

// PackageOf returns the import path in the name of a function, or "" if the name has none, as that of a C
// function.
func PackageOf(function string) string {
	// Type arguments may contain other import paths.
	function, _, _ = strings.Cut(function, "[")
	slash := strings.LastIndexByte(function, '/') + 1
	dot := strings.IndexByte(function[slash:], '.')
	if dot < 0 {
		return ""
	}
	return function[:slash+dot]
}
