package record

import "unsafe"

// ends returns bytes from the start of s and bytes from its end. If s has at most 16 bytes, the result includes all
// of them.
func ends(s string) (first, last uint64) {
	p, n := unsafe.Pointer(unsafe.StringData(s)), len(s)
	switch {
	case n >= 8:
		return *(*uint64)(p), *(*uint64)(unsafe.Add(p, n-8))
	case n >= 4:
		return uint64(*(*uint32)(p)), uint64(*(*uint32)(unsafe.Add(p, n-4)))
	case n > 0:
		return uint64(s[0]) | uint64(s[n/2])<<8, uint64(s[n-1])
	}
	return 0, 0
}
