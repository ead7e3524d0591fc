//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package provider

func (*usage) addRusage() {}
