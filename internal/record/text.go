package record

import "unsafe"

// address returns where the bytes of s are. Two strings that are alive at the same time
// and have one address and one length are the same.
func address(s string) *byte { return unsafe.StringData(s) }

// hashAddress returns a hash of an address and a size.
func hashAddress(at *byte, size int) uint64 {
	return uint64(uintptr(unsafe.Pointer(at)))*0x9e3779b97f4a7c15 + uint64(size)*0xd1342543de82ef95
}

// view returns the string that b is, without a copy: it changes when b does.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
