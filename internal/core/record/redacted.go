package record

import (
	"slices"

	"github.com/entrace-go/entrace/internal/core/execbatch"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/redact"
)

// A redaction is the part of a Builder that decides what is a secret.
type redaction struct {
	verdict redact.Verdict // the verdict on the attribute whose name was added last
	groups  Groups
	key     []byte // a buffer for a name with the names of its groups
}

// Groups are the open groups of an entry.
type Groups struct {
	names  []byte // the names of the groups, with a dot after each
	ends   []int  // the end of each group's name in names, including the dot
	matter bool   // the names of the groups can change the verdict on an attribute
}

// Group makes name a prefix of the names of the application's attributes that follow, until EndGroup.
func (b *Builder) Group(name string) {
	b.buf = append(b.buf, 0, codeGroup)
	b.text(name, false)
	if b.Redact != nil {
		g := &b.groups
		g.names = append(append(g.names, name...), '.')
		g.ends = append(g.ends, len(g.names))
		b.judgeGroups()
	}
}

// EndGroup ends the innermost open group.
func (b *Builder) EndGroup() {
	b.buf = append(b.buf, 0, codeGroupEnd)
	if g := &b.groups; len(g.ends) > 0 {
		g.ends = g.ends[:len(g.ends)-1]
		from := 0
		if n := len(g.ends); n > 0 {
			from = g.ends[n-1]
		}
		g.names = g.names[:from]
		b.judgeGroups()
	}
}

func (b *Builder) judgeGroups() {
	b.groups.matter = len(b.groups.names) > 0 && b.Redact.Matters(wire.View(b.groups.names))
}

// Groups returns a copy of the open groups.
func (b *Builder) Groups() Groups {
	return Groups{slices.Clone(b.groups.names), slices.Clone(b.groups.ends), b.groups.matter}
}

// Enter adds g to the open groups. The caller has just added shared items that open the groups g.
func (b *Builder) Enter(g *Groups) {
	if len(g.ends) == 0 {
		return
	}
	own := &b.groups
	from := len(own.names)
	own.names = append(own.names, g.names...)
	for _, end := range g.ends {
		own.ends = append(own.ends, from+end)
	}
	own.matter = g.matter
	if from > 0 {
		b.judgeGroups()
	}
}

// redacted returns the kind and the value of the attribute called name, without secrets.
func (b *Builder) redacted(name string, kind byte, s string) (byte, string) {
	if b.groups.matter { // the verdict depends on the groups as well as the name
		b.key = append(append(b.key[:0], b.groups.names...), name...)
		b.verdict = b.Redact.Key(wire.View(b.key))
	}
	isText := false
	if kind == ValueBytes && b.verdict != redact.Replace && execbatch.IsTrace(s) {
		if safe, err := execbatch.Redact(b.Redact, s); err == nil {
			return kind, safe
		}
	}
	switch kind {
	case ValueJSON, ValueAnyValue:
		s, isText = b.Redact.JSON(b.verdict, name, s)
	default:
		s = b.Redact.Value(b.verdict, name, s)
		isText = kind == ValueBytes && b.verdict == redact.Replace
	}
	if isText {
		kind = ValueString
	}
	return kind, s
}
