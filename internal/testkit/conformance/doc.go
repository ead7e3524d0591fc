// Package conformance tests against ENTRACE's own crate, entrace_core, that each
// side reads the files of the other. The program peer is that crate with a command
// line; the tests run it. 'make conformance' runs the tests on machines with Cargo.
package conformance
