package slogadapter

// ForgetRecordLayout makes the package work as it does where slog.Record is not
// what it was written for. What it returns ends that.
func ForgetRecordLayout() (restore func()) {
	before := recordLayout
	recordLayout.known = false
	return func() { recordLayout = before }
}

// KnowsRecordLayout reports whether slog.Record is what the package was written
// for.
func KnowsRecordLayout() bool { return recordLayout.known }
