//go:build !linux

package provider

// A system is what the process is asked by, which is but the operating system.
type system struct{}

func newSystem(string) *system { return &system{} }

func (*system) usage() usage {
	var u usage
	u.addRusage()
	return u
}
