package osfile

import "golang.org/x/sys/unix"

// BootID returns what tells one boot of the machine from another, "" if that is unknown.
func BootID() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}
