package secrets_test

import (
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/secrets"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/redact"
)

// TestReplace checks that lists of names are changed together with the attributes that they name, and that ids
// never change.
func TestReplace(t *testing.T) {
	e := &format.TraceEntry{Message: format.Some("Bearer abcdef0123456789"), Metadata: format.Metadata{Name: "GET"}, Attributes: tracetest.Attributes(
		"span_id", "0123456789abcdef",
		"tokens", "[1,2]",
		"secrets", `["a"]`,
		"map", `{"password":"hunter2","n":1}`,
		"Bearer abcdef0123456789", "{}",
		"otel.attr.span_id", "mine",
		"password#2", []byte("hunter2"),
		"pin.token", uint64(4711),
		"otel.json", `["tokens","secrets","map","Bearer abcdef0123456789"]`,
		"otel.anyvalue", `["secrets"]`,
	)}
	var found []string
	if !secrets.Replace(redact.New(redact.Default().Keys("span_id"), nil), e, func(field string) { found = append(found, field) }) {
		t.Error("nothing has changed")
	}
	var got []string
	for _, a := range e.Attributes {
		got = append(got, a.Name+"="+a.Value.String())
	}
	want := []string{
		"span_id=0123456789abcdef", "tokens=[1,2]", "secrets=[redacted]", `map={"password":"[redacted]","n":1}`, "Bearer [redacted]={}",
		"otel.attr.span_id=[redacted]", "password#2=[redacted]", "pin.token=4711", `otel.json=["tokens","map","Bearer [redacted]"]`,
	}
	expect.Slice(t, got, want, "the secrets")
	if want := "message, attribute secrets, attribute map, the name of attribute Bearer [redacted], attribute otel.attr.span_id, attribute password#2"; strings.Join(found, ", ") != want {
		t.Errorf("found %v, want %s", found, want)
	}
	expect.Equal(t, e.Message.Value, "Bearer [redacted]", "the message")
	if secrets.Replace(redact.New(nil, nil), e, func(field string) { t.Error(field) }) {
		t.Error("what is redacted has secrets")
	}
}
