package query

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/text"
	"github.com/entrace-go/entrace/view"
)

// A fieldKind says where a field is read from: a column, an attribute, the trace.
type fieldKind uint8

const (
	fieldAttribute fieldKind = iota // of the row, else of its resource
	fieldOwn                        // an attribute of the row alone, if it is a span
	fieldOfLog                      // likewise, a log record
	fieldOfEvent                    // an attribute of an event
	fieldOfLink                     // an attribute of a link
	fieldOfResource
	fieldOfScope // an attribute of the instrumentation scope
	fieldName
	fieldLevel
	fieldMessage
	fieldTarget
	fieldService
	fieldFile
	fieldLine
	fieldStart
	fieldRole
	fieldEntry
	fieldStatus
	fieldStatusMessage
	fieldKindOfSpan
	fieldDuration
	fieldSelf
	fieldDepth
	fieldOpen
	fieldFailed
	fieldSpanID
	fieldParentID
	fieldChildCount
	fieldTraceID
	fieldTraceDuration
	fieldRootName
	fieldRootService
	fieldEventName
	fieldEventSince
	fieldLinkTrace
	fieldLinkSpan
	fieldScopeVersion
	fieldIsRoot // parent, compared with nil
)

// bareNames are the names that need no scope, in filters without braces.
var bareNames = map[string]fieldKind{
	"name": fieldName, "level": fieldLevel, "message": fieldMessage, "target": fieldTarget, "service": fieldService,
	"status": fieldStatus, "kind": fieldKindOfSpan, "duration": fieldDuration, "self": fieldSelf, "start": fieldStart,
	"depth": fieldDepth, "file": fieldFile, "line": fieldLine,
}

// braceNames are those that TraceQL has besides.
var braceNames = map[string]fieldKind{
	"statusMessage": fieldStatusMessage, "parent": fieldIsRoot, "rootName": fieldRootName, "rootServiceName": fieldRootService,
	"traceDuration": fieldTraceDuration, "childCount": fieldChildCount,
}

// intrinsics are the names with a colon.
var intrinsics = map[string]fieldKind{
	"span:duration": fieldDuration, "span:name": fieldName, "span:kind": fieldKindOfSpan, "span:status": fieldStatus,
	"span:statusMessage": fieldStatusMessage, "span:id": fieldSpanID, "span:parentID": fieldParentID, "span:childCount": fieldChildCount,
	"span:self": fieldSelf, "span:depth": fieldDepth, "span:open": fieldOpen, "span:failed": fieldFailed,
	"trace:duration": fieldTraceDuration, "trace:rootName": fieldRootName, "trace:rootService": fieldRootService, "trace:id": fieldTraceID,
	"event:name": fieldEventName, "event:timeSinceStart": fieldEventSince,
	"link:traceID": fieldLinkTrace, "link:spanID": fieldLinkSpan,
	"instrumentation:name": fieldTarget, "instrumentation:version": fieldScopeVersion,
	"log:level": fieldLevel, "log:message": fieldMessage, "log:time": fieldStart,
	"entry:id": fieldEntry, "entry:level": fieldLevel, "entry:target": fieldTarget, "entry:file": fieldFile, "entry:line": fieldLine, "entry:role": fieldRole,
}

// scopes are the words before a dot.
var scopes = map[string]fieldKind{
	"": fieldAttribute, "span": fieldOwn, "log": fieldOfLog, "resource": fieldOfResource, "event": fieldOfEvent, "link": fieldOfLink,
	"instrumentation": fieldOfScope,
}

// enumWords are the values that have names.
var enumWords = map[string][]Value{
	"ok": {enumValue(kindStatus, uint8(otel.StatusOK))}, "unset": {enumValue(kindStatus, uint8(otel.StatusUnset))},
	"error": {
		enumValue(kindStatus, uint8(otel.StatusError)), enumValue(kindLevel, uint8(format.LevelError)),
	},
	"trace": {enumValue(kindLevel, uint8(format.LevelTrace))}, "debug": {enumValue(kindLevel, uint8(format.LevelDebug))},
	"info": {enumValue(kindLevel, uint8(format.LevelInfo))}, "warn": {enumValue(kindLevel, uint8(format.LevelWarn))},
	"unspecified": {enumValue(kindSpanKind, uint8(otel.KindUnspecified))}, "internal": {enumValue(kindSpanKind, uint8(otel.KindInternal))},
	"server": {enumValue(kindSpanKind, uint8(otel.KindServer))}, "client": {enumValue(kindSpanKind, uint8(otel.KindClient))},
	"producer": {enumValue(kindSpanKind, uint8(otel.KindProducer))}, "consumer": {enumValue(kindSpanKind, uint8(otel.KindConsumer))},
	"span": {enumValue(kindRole, uint8(view.RoleSpan))}, "event": {enumValue(kindRole, uint8(view.RoleEvent))},
	"log": {enumValue(kindRole, uint8(view.RoleLog))}, "link": {enumValue(kindRole, uint8(view.RoleLink))},
	"resource": {enumValue(kindRole, uint8(view.RoleResource))}, "recorder": {enumValue(kindRole, uint8(view.RoleRecorder))},
	"root": {enumValue(kindRole, uint8(view.RoleRoot))}, "other": {enumValue(kindRole, uint8(view.RoleOther))},
}

// enumOf returns the kind of the values of a field, if they have names.
func (k fieldKind) enumOf() valueKind {
	switch k {
	case fieldLevel:
		return kindLevel
	case fieldStatus:
		return kindStatus
	case fieldKindOfSpan:
		return kindSpanKind
	case fieldRole:
		return kindRole
	}
	return kindNil
}

// enumNamed returns the value of a kind that has that name, in any case.
func enumNamed(kind valueKind, word string) (Value, bool) {
	word = strings.ToLower(word)
	if word == "warning" {
		word = "warn"
	}
	for _, v := range enumWords[word] {
		if v.kind == kind {
			return v, true
		}
	}
	return Value{}, false
}

// enumNames returns the names of the values of a kind, in the order of the values.
func enumNames(kind valueKind) []string {
	var names []string
	for name := range enumWords {
		if _, ok := enumNamed(kind, name); ok {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		x, _ := enumNamed(kind, a)
		y, _ := enumNamed(kind, b)
		return cmp.Compare(x.n, y.n)
	})
	return names
}

// attributeName returns the name of an attribute as a query writes it behind the dot: in quotes if
// it must.
func attributeName(name string) string {
	for _, c := range name {
		if c <= ' ' || strings.ContainsRune(`(){}[]=<>!~|&,"'+-*/%^`+"`", c) || c == 0x7f {
			return quote(name)
		}
	}
	return name
}

// fieldNamed returns the field that a word names; ok is false if it names none.
func fieldNamed(t *token, inBraces bool) (f *field, ok bool) {
	f = &field{text: t.text, pos: t.pos, end: t.end}
	parts := t.parts
	if len(parts) > 1 && parts[0] == "parent" {
		f.parent = true
		parts = parts[1:]
		if _, scoped := scopes[parts[0]]; !scoped || len(parts) == 1 { // parent.x.y is an attribute
			parts = append([]string{""}, parts...)
		}
	}
	if len(parts) == 1 {
		kind, known := intrinsics[parts[0]]
		if !known {
			kind, known = bareNames[parts[0]]
		}
		if !known && inBraces {
			kind, known = braceNames[parts[0]]
		}
		f.kind = kind
		return f, known
	}
	kind, known := scopes[parts[0]]
	f.kind, f.name = kind, strings.Join(parts[1:], ".")
	return f, known && f.name != ""
}

// similar returns a name that may have been meant by one that is none, in or outside of braces.
func similar(word string, inBraces bool) string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(bareNames)), maps.Keys(intrinsics))
	if inBraces {
		names = slices.AppendSeq(names, maps.Keys(braceNames))
	}
	slices.Sort(names)
	for _, name := range names {
		if kind, known := braceNames[word]; known && intrinsics[name] == kind {
			return name
		}
	}
	return nearest(word, names)
}

// nearest returns the name that differs least from a word, "" if all differ in more than a third of
// its letters.
func nearest(word string, names []string) string {
	return text.Nearest(word, names, (len(word)+1)/3)
}

// isTypo reports whether a word is so near to a name that it is rather that name than another one.
func isTypo(word, name string) bool {
	return text.Distance(word, name) <= 1+len(word)/8
}

// role returns the role of the rows that a comparison of the field is about, if it is one: for all
// others it is false, so that a field that is nil there does not select them.
func (f *field) role() (role view.Role, ok bool) {
	switch {
	case f.parent:
		return 0, false
	case f.kind.ofSpans():
		return view.RoleSpan, true
	}
	return view.RoleLog, f.kind == fieldOfLog
}

// ofSpans reports whether only spans have such a field.
func (k fieldKind) ofSpans() bool {
	switch k {
	case fieldStatus, fieldStatusMessage, fieldKindOfSpan, fieldDuration, fieldSelf, fieldOpen, fieldFailed, fieldSpanID, fieldParentID, fieldChildCount, fieldIsRoot, fieldOwn:
		return true
	}
	return false
}
