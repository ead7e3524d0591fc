package recorder_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/redact"
)

// TestRedactedIsCounted checks that Stats and the last entry count the replaced secrets by rule, and that
// no part of a secret remains if its value is cut.
func TestRedactedIsCounted(t *testing.T) {
	const secret = "hunter2hunter2"
	path := hosttest.Path(t, "app.et")
	rec := tracetest.CreateAt(t, path, &recorder.Options{Redact: redact.Default(), MaxEntrySize: 4 << 10})
	e := named("login")
	long := "-----BEGIN PRIVATE KEY-----" + strings.Repeat(secret, 1000)
	for name, v := range map[string]string{"db.password": secret, "note": "token=" + secret, "key file": long} {
		e.Add(name, format.StringValue(v))
	}
	must(t, rec.Log(format.SpanRef{}, e))
	want := map[string]uint64{"key": 1, "parameter": 1, "private_key": 1}
	if got := rec.Stats().Redacted; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	tracetest.Close(t, rec)
	f := tracetest.Open(t, path)
	end, err := f.Entry(uint32(f.Len() - 1))
	must(t, err)
	for rule, n := range want {
		v, _ := end.Attribute("redacted." + rule)
		if got, ok := v.U64(); !ok || got != n {
			t.Errorf("the last entry has redacted.%s %v", rule, v)
		}
	}
	b := readFile(t, path)
	if strings.Contains(string(b), secret) {
		t.Error("the secret is in the file")
	}
}
