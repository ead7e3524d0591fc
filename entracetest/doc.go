// Package entracetest records the spans and log records of a test in memory, runs queries on them, and
// saves the trace if the test fails.
//
//	func TestCheckout(t *testing.T) {
//		tr := entracetest.New(t)
//		shop := NewShop(tr.TracerProvider(), tr.Logger())
//		shop.Checkout(t.Context(), "mug")
//
//		tr.Expect(`{ name = "POST /checkout" && status != error }`, 1)
//		tr.ExpectNone(`{ level >= warn }`)
//		tr.AtMost(`{ name = "SELECT" }`, 2)
//	}
//
// Queries use the language of package query. They search everything that was recorded so far, including spans that
// have not ended.
//
// # When a test fails
//
// If a test fails, the test's log contains the tree of its spans and log records, and the command that shows the
// trace:
//
//	entrace view /tmp/entrace-TestCheckout-1872.iet
//
// If go test has the flag -artifacts, the file is in t.ArtifactDir(). Without this flag, it is in the folder that
// ENTRACE_TEST_DIR names, or else in os.TempDir(). Nothing removes the file. The file name is the value of the test's
// attribute entrace.trace, which go test -json prints.
//
// # What it costs and needs
//
// A [Trace] has no goroutine and no timer, and no file until the test fails, so it works within testing/synctest and
// with leak detectors. A Trace is safe for concurrent use, because each call records under a lock. Each parallel test
// has its own Trace.
//
// As in a service, a Trace records "[redacted]" in place of values that the default policy of package redact
// considers secrets. [WithRedact] changes the policy.
package entracetest
