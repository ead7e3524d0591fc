package query

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/internal/text"
	"github.com/entrace-go/entrace/view"
)

// A fieldKind identifies the source of a field: a column, an attribute or the trace.
type fieldKind uint8

const (
	fieldAttribute fieldKind = iota // an attribute of the row, or of its resource if the row does not have it
	fieldOwn                        // an attribute of the row alone, if it is a span
	fieldOfLog                      // an attribute of the row alone, if it is a log record
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
	fieldIsRoot // the field parent, which is nil if the row has no span above it in the view

	// The fields from execution traces, which are in stateFields.
	fieldRunning
	fieldRunnable
	fieldSyscall
	fieldGC
	fieldMutex
	fieldSync
	fieldChan
	fieldSelect
	fieldNet
	fieldSleep
	fieldBlocked
	fieldStates // how the span was found in an execution trace
	fieldGoroutine
)

// bareNames are the names that need no scope. They are valid in all filters.
var bareNames = map[string]fieldKind{
	"name": fieldName, "level": fieldLevel, "message": fieldMessage, "target": fieldTarget, "service": fieldService,
	"status": fieldStatus, "kind": fieldKindOfSpan, "duration": fieldDuration, "self": fieldSelf, "start": fieldStart,
	"depth": fieldDepth, "file": fieldFile, "line": fieldLine,
}

// braceNames are further names of TraceQL. They are only valid in braces.
var braceNames = map[string]fieldKind{
	"statusMessage": fieldStatusMessage, "parent": fieldIsRoot, "rootName": fieldRootName, "rootServiceName": fieldRootService,
	"traceDuration": fieldTraceDuration, "childCount": fieldChildCount,
}

// intrinsics are the field names that contain a colon.
var intrinsics = map[string]fieldKind{
	"span:duration": fieldDuration, "span:name": fieldName, "span:kind": fieldKindOfSpan, "span:status": fieldStatus,
	"span:statusMessage": fieldStatusMessage, "span:id": fieldSpanID, "span:parentID": fieldParentID, "span:childCount": fieldChildCount,
	"span:self": fieldSelf, "span:depth": fieldDepth, "span:open": fieldOpen, "span:failed": fieldFailed,
	"span:running": fieldRunning, "span:runnable": fieldRunnable, "span:syscall": fieldSyscall, "span:gc": fieldGC,
	"span:mutex": fieldMutex, "span:sync": fieldSync, "span:chan": fieldChan, "span:select": fieldSelect, "span:net": fieldNet,
	"span:sleep": fieldSleep, "span:blocked": fieldBlocked, "span:states": fieldStates, "span:goroutine": fieldGoroutine,
	"trace:duration": fieldTraceDuration, "trace:rootName": fieldRootName, "trace:rootService": fieldRootService, "trace:id": fieldTraceID,
	"event:name": fieldEventName, "event:timeSinceStart": fieldEventSince,
	"link:traceID": fieldLinkTrace, "link:spanID": fieldLinkSpan,
	"instrumentation:name": fieldTarget, "instrumentation:version": fieldScopeVersion,
	"log:level": fieldLevel, "log:message": fieldMessage, "log:time": fieldStart,
	"entry:id": fieldEntry, "entry:level": fieldLevel, "entry:target": fieldTarget, "entry:file": fieldFile, "entry:line": fieldLine, "entry:role": fieldRole,
}

// scopes are the words that can be before the dot of an attribute.
var scopes = map[string]fieldKind{
	"": fieldAttribute, "span": fieldOwn, "log": fieldOfLog, "resource": fieldOfResource, "event": fieldOfEvent, "link": fieldOfLink,
	"instrumentation": fieldOfScope,
}

// enumWords maps the names of enum values to the values. A name can have values of several kinds.
var enumWords = func() map[string][]Value {
	words := make(map[string][]Value)
	for _, of := range [...]struct {
		kind valueKind
		n    uint8
	}{{kindStatus, uint8(otel.StatusError)}, {kindLevel, uint8(format.LevelError)}, {kindSpanKind, uint8(otel.KindConsumer)}, {kindRole, uint8(view.RoleRecorder)}} {
		for n := range of.n + 1 {
			if v := enumValue(of.kind, n); v.n != int64(view.RoleFolded) || of.kind != kindRole {
				// For the name "error", the status precedes the level.
				words[strings.ToLower(v.String())] = append(words[strings.ToLower(v.String())], v)
			}
		}
	}
	return words
}()

// enumOf returns the kind of the values of a field if it is an enum, otherwise kindNil.
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

// enumNamed returns the value of an enum kind with the given name, ignoring case.
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

// enumNames returns the names of the values of an enum kind, in the order of the values.
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

// attributeName returns the name of an attribute in the syntax that follows the dot in a query. It quotes the
// name if the lexer would otherwise read another name, in braces or outside of them.
func attributeName(name string) string {
	for _, context := range [2][2]string{{"{.", "=1}"}, {".", " = 1"}} {
		if tokens, err := lex(context[0] + name + context[1]); err != nil || !isAttribute(tokens, name) {
			return quote(name)
		}
	}
	return name
}

// isAttribute reports whether tokens begin with an optional brace, the attribute called name, and an equals
// sign.
func isAttribute(tokens []token, name string) bool {
	if tokens[0].text == "{" {
		tokens = tokens[1:]
	}
	if len(tokens) < 3 || tokens[0].kind != tokenWord || tokens[1].text != "=" {
		return false
	}
	f, ok := fieldNamed(&tokens[0], true)
	return ok && f.kind == fieldAttribute && f.name == name
}

// fieldNamed returns the field that a word names. It returns false if the word is not a field.
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
		name, ofParent := strings.CutPrefix(parts[0], "parent:")
		if ofParent {
			f.parent = true
			kind, known = intrinsics["span:"+name]
		}
		if !known {
			kind, known = bareNames[name]
		}
		if !known && inBraces {
			kind, known = braceNames[parts[0]]
		}
		f.kind = kind
		return f, known
	}
	kind, known := scopes[parts[0]]
	f.kind, f.name = kind, strings.Join(parts[1:], ".")
	return f, known && (f.name != "" || strings.HasSuffix(t.text, `""`)) // an attribute may have an empty name
}

// similar returns a valid name that the user may have meant by an unknown word, or "".
func similar(word string, inBraces bool) string {
	if kind, known := braceNames[word]; known && scopedName(kind) != "" {
		return scopedName(kind)
	}
	names := slices.AppendSeq(slices.Collect(maps.Keys(bareNames)), maps.Keys(intrinsics))
	if inBraces {
		names = slices.AppendSeq(names, maps.Keys(braceNames))
	}
	slices.Sort(names)
	return nearest(word, names)
}

// scopedName returns a name of a field that has a scope, such as span:name, or "".
func scopedName(kind fieldKind) string {
	if kind == fieldService {
		return "resource.service.name"
	}
	for _, name := range slices.Sorted(maps.Keys(intrinsics)) {
		if intrinsics[name] == kind {
			return name
		}
	}
	return ""
}

// nearest returns the name that differs least from a word. It returns "" if all names differ in
// more than a third of its letters.
func nearest(word string, names []string) string {
	return text.Nearest(word, names, (len(word)+1)/3)
}

// isTypo reports whether a word is so similar to a name that the word is probably a misspelling.
func isTypo(word, name string) bool {
	return text.Distance(word, name) <= 1+len(word)/8
}

// role returns the only role whose rows have the field. It returns false if rows of several roles have it. A
// comparison of the field, even with nil, is false for rows of other roles.
func (f *field) role() (role view.Role, ok bool) {
	switch {
	case f.parent:
		return 0, false
	case f.kind.ofSpans():
		return view.RoleSpan, true
	}
	return view.RoleLog, f.kind == fieldOfLog
}

// ofSpans reports whether only spans have a field of this kind.
func (k fieldKind) ofSpans() bool {
	switch k {
	case fieldStatus, fieldStatusMessage, fieldKindOfSpan, fieldDuration, fieldSelf, fieldOpen, fieldFailed, fieldSpanID, fieldParentID, fieldChildCount, fieldIsRoot, fieldOwn:
		return true
	}
	return k >= fieldRunning
}

// metaValue returns the value of a field that is stored in the metadata of an entry.
func metaValue(kind fieldKind, m *format.Metadata) Value {
	switch kind {
	case fieldName:
		return stringValue(m.Name)
	case fieldTarget:
		return stringValue(m.Target)
	case fieldFile:
		if m.File.Valid {
			return stringValue(m.File.Value)
		}
	case fieldLine:
		if m.Line.Valid {
			return intValue(int64(m.Line.Value))
		}
	}
	return Value{}
}

// flagsValue returns the value of a field that is stored in the flags of a row.
func flagsValue(kind fieldKind, f view.Flags) Value {
	switch {
	case kind == fieldLevel:
		return enumValue(kindLevel, uint8(f.Severity())) // a failed span has the level error, whatever level was recorded
	case kind == fieldRole:
		return enumValue(kindRole, uint8(f.Role()))
	case f.Role() != view.RoleSpan:
		return Value{}
	case kind == fieldStatus:
		return enumValue(kindStatus, columns.Status(uint16(f)))
	case kind == fieldOpen:
		return boolValue(f.Open())
	case kind == fieldFailed:
		return boolValue(f.Failed())
	}
	return enumValue(kindSpanKind, columns.Kind(uint16(f)))
}
