package analyze

import (
	"slices"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/view"
)

// GenAI is the prefix of the names of attributes and events in OpenTelemetry's conventions for generative
// AI.
const GenAI = "gen_ai."

// Spoken returns the attributes of an entry that belong to a conversation with a model.
func Spoken(e *format.TraceEntry) []format.Attribute {
	return slices.DeleteFunc(slices.Clone(e.UserAttributes()), func(a format.Attribute) bool { return !strings.HasPrefix(a.Name, GenAI) })
}

// IsTurn reports whether row r, whose entry is e, is part of a conversation with a model.
func IsTurn(v *view.View, r view.Row, e *format.TraceEntry) bool {
	role := v.Role(r)
	return role != view.RoleResource && role != view.RoleLink && (strings.HasPrefix(e.Metadata.Name, GenAI) || len(Spoken(e)) > 0)
}
