//go:build !linux

package provider

// A system reads statistics of the process. On this system it has no /proc.
type system struct{}

func newSystem(string) *system { return &system{} }

func (*system) usage() usage {
	var u usage
	u.addRusage()
	return u
}
