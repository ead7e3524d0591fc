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

func TestSpanOfText(t *testing.T) {
	const (
		trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
		labels      = ` labels:{"span_id": "` + span + `", "trace_id": "` + trace + `"}]:`
		both        = trace + " " + span
	)
	for text, want := range map[string]string{
		"panic: boom\n\ngoroutine 4 [running" + labels + "\nmain.f()":                        both,
		"panic: boom\n\ngoroutine 4 gp=0xc0 m=0 mp=0x5 [running, locked to thread" + labels:  both,
		"fatal error: concurrent map writes\n\ngoroutine 4 [running" + labels:                both,
		"goroutine 4 [running" + labels + "\ninternal/runtime/maps.fatal(…)":                 both,
		"panic: boom\n\ngoroutine 4 [running]:\n\ngoroutine 5 [running" + labels:             " ",
		"panic: boom\n\tgoroutine 3 [running" + labels + "\n\ngoroutine 4 [running]:":        " ",
		"SIGABRT: abort\n\ngoroutine 4 [running" + labels:                                    " ",
		"fatal error: all goroutines are asleep\n\ngoroutine 4 [chan receive" + labels:       " ",
		`panic: boom` + "\n\n" + `goroutine 4 [running labels:{"a": "{\"span_id\": \"00"}]:`: " ",
	} {
		if trace, span := Span(text); trace+" "+span != want {
			t.Errorf("of %q the span is %q, want %q", text, trace+" "+span, want)
		}
	}
}
