package tracename

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// Unique returns path with the host, the process id and a random number added to the name, so that it is unique.
func Unique(path string) string {
	//nolint:gosec // G404: it only has to be different, not secret
	random := rand.Uint32()
	host, _ := os.Hostname() // without it, the other parts have to suffice
	host, _, _ = strings.Cut(host, ".")
	ext := filepath.Ext(path)
	return fmt.Sprintf("%s.%s-%d-%08x%s", strings.TrimSuffix(path, ext), FileName(cmp.Or(host, "host")), os.Getpid(), random, ext)
}

// unknownService begins the name that OpenTelemetry gives to a service without a name. The name of the program
// follows.
const unknownService = "unknown_service:"

// FileName makes s safe as a part of a file name: each byte that is not an ASCII letter, a digit or one of ._-
// becomes %XX. Different names have different results: a long result is cut and ends with a hash.
func FileName(s string) string {
	if program, ok := strings.CutPrefix(s, unknownService); ok && program != "" {
		s = strings.TrimSuffix(program, ".exe")
	}
	if s == "" {
		return "unknown_service"
	}
	var b strings.Builder
	device := isDevice(s)
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		digit := c >= '0' && c <= '9'
		if letter && (i > 0 || !device) || digit || c == '_' || (c == '-' || c == '.') && i > 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	name := b.String()
	if len(name) <= maxFileName {
		return name
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(s))               // cannot fail
	sum := fmt.Sprintf("~%016x", h.Sum64()) // no shorter result contains "~"
	return name[:maxFileName-len(sum)] + sum
}

const maxFileName = 100

// isDevice reports whether Windows treats a file with this name as a device.
func isDevice(s string) bool {
	s, _, _ = strings.Cut(strings.ToUpper(s), ".")
	switch s {
	case "CON", "PRN", "AUX", "NUL":
		return true
	}
	return len(s) == 4 && (strings.HasPrefix(s, "COM") || strings.HasPrefix(s, "LPT")) && s[3] >= '0' && s[3] <= '9'
}
