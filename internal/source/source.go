// Package source takes names of the Go source apart.
package source

import (
	"net/url"
	"strings"
)

// Package returns the import path in the full name of a function, as the runtime
// has it: with the dots behind the last slash of the path escaped.
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
