package placer

import (
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/record"
)

// Names of attributes and entries that a Placer adds or searches. Package format documents them.
const (
	attrTraceID      = "trace_id"
	attrSpanID       = "span_id"
	attrParentSpanID = "parent_span_id"
	attrTime         = record.AttrTime

	nameSpanEnd = "span end"
)

// Levels of entries.
const (
	levelTrace = 0
	levelError = 4
)

// ofEnd reports whether the entry of a span's end has the attribute name, which is one of our own.
func ofEnd(name string) bool {
	switch name {
	case attrSpanID, "duration_nano", mapping.AttrClockSkew, mapping.AttrStatusCode, mapping.AttrStatusDescription,
		mapping.AttrDroppedAttributes, mapping.AttrDroppedEvents, mapping.AttrDroppedLinks:
		return true
	}
	return false
}
