package mapping

import (
	"net/url"
	"strings"
)

// Package returns the import path of a function's package, from the full name of the function as the runtime
// returns it. The runtime escapes the dots after the last slash of the path, and Package unescapes them.
func Package(function string) string {
	path, _, _ := strings.Cut(function, "[") // type arguments have paths of their own
	slash := strings.LastIndexByte(path, '/')
	if dot := strings.IndexByte(path[slash+1:], '.'); dot >= 0 {
		path = path[:slash+1+dot]
	}
	if plain, err := url.PathUnescape(path); err == nil {
		return plain
	}
	return path
}
