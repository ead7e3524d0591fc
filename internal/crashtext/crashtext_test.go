package crashtext

import "testing"

func TestTextReason(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		"panic: boom\n\ngoroutine 1 …": "panic: boom",
		"SIGABRT: abort":               "SIGABRT: abort",
		"goroutine 7 [running]:\ninternal/runtime/maps.fatal(…)\n\t/usr/…": "fatal error of the runtime in internal/runtime/maps.fatal(…)",
		"goroutine 7 [running]:": "fatal error of the runtime in ",
	} {
		if got := Reason(text); got != want {
			t.Errorf("of %q the reason is %q, want %q", text, got, want)
		}
	}
}
