package secrets_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/secrets"
	"github.com/entrace-go/entrace/redact"
)

// TestReplace: lists of names follow the attributes that they name, and ids stay whatever the policy says.
func TestReplace(t *testing.T) {
	s := format.StringValue
	e := &format.TraceEntry{Message: format.Some("Bearer abcdef0123456789"), Metadata: format.Metadata{Name: "GET"}, Attributes: []format.Attribute{
		{Name: "span_id", Value: s("0123456789abcdef")},
		{Name: "tokens", Value: s("[1,2]")},
		{Name: "secrets", Value: s(`["a"]`)},
		{Name: "map", Value: s(`{"password":"hunter2","n":1}`)},
		{Name: "Bearer abcdef0123456789", Value: s("{}")},
		{Name: "otel.attr.span_id", Value: s("mine")},
		{Name: "password#2", Value: format.BytesValue([]byte("hunter2"))},
		{Name: "pin.token", Value: format.U64Value(4711)},
		{Name: "otel.json", Value: s(`["tokens","secrets","map","Bearer abcdef0123456789"]`)},
		{Name: "otel.anyvalue", Value: s(`["secrets"]`)},
	}}
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
	if !slices.Equal(got, want) {
		t.Errorf("got  %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
	if want := "message, attribute secrets, attribute map, the name of attribute Bearer [redacted], attribute otel.attr.span_id, attribute password#2"; strings.Join(found, ", ") != want {
		t.Errorf("found %v, want %s", found, want)
	}
	if e.Message.Value != "Bearer [redacted]" {
		t.Errorf("the message is %q", e.Message.Value)
	}
	if secrets.Replace(redact.New(nil, nil), e, func(field string) { t.Error(field) }) {
		t.Error("what is redacted has secrets")
	}
}
