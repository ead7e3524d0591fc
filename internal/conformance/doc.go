// Package conformance proves against ENTRACE's own crate, entrace_core, that each
// side reads what the other wrote: peer is that crate behind a command line, and
// the tests, run by 'make conformance' where there is Cargo, drive it.
package conformance
