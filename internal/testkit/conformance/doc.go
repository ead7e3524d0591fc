// Package conformance tests that this module and ENTRACE's own crate, entrace_core, read each other's files. The
// tests run the program peer, which is the crate with a command line. 'make conformance' runs the tests on
// machines with Cargo.
package conformance
