package osfile

import "golang.org/x/sys/unix"

// BootID returns an id of the current boot of the machine, or "" if it is unknown.
func BootID() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}
