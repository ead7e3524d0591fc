package osfile

import (
	"os"

	"golang.org/x/sys/windows"
)

// IsRemoved reports whether the open file f no longer has a name.
func IsRemoved(f *os.File) bool {
	var info windows.ByHandleFileInformation
	return windows.GetFileInformationByHandle(windows.Handle(f.Fd()), &info) == nil && info.NumberOfLinks == 0
}

// sameDevice returns true. On Windows a path includes its device, so the two folders, which are in one path, are on
// the same device.
func sameDevice(os.FileInfo, os.FileInfo) bool { return true }
