// Package entracetest records the spans and log records of a test into memory, asks them questions, and
// leaves the trace of a test that failed.
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
// Queries are those of package query. They see all that was recorded so far: also spans that have not
// ended.
//
// # When a test fails
//
// The test's log gets the tree of its spans and log records, and the command that shows the trace:
//
//	entrace view /tmp/entrace-TestCheckout-1872.iet
//
// The file is in t.ArtifactDir() if go test has the flag -artifacts, else in the folder that
// ENTRACE_TEST_DIR names, or in os.TempDir(). It stays there. The test has its name as attribute
// entrace.trace, which go test -json prints.
//
// # What it costs and needs
//
// A [Trace] has no goroutine, no timer and no file until the test fails, so that it works within
// testing/synctest and with leak detectors. Each call records under a lock. A Trace is safe for concurrent
// use; parallel tests have one each.
//
// Values that the default policy of package redact takes for secrets are recorded as [redacted], as a
// service's recorder does. [WithRedact] changes that.
package entracetest
