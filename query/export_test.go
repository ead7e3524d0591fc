package query

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/view"
)

// BareNames are the names of fields that need no scope.
var BareNames = slices.Sorted(maps.Keys(bareNames))

// NamesTable returns the table of the names in docs/query.md, which the definitions of the fields make.
func NamesTable() string {
	var out strings.Builder
	out.WriteString("| name | exists for | value |\n| --- | --- | --- |\n")
	line, exists, value := "", "", ""
	flush := func() {
		if line != "" {
			fmt.Fprintf(&out, "|%s | %s | %s |\n", line, exists, value)
		}
	}
	for _, d := range definitions {
		if d.value != "" {
			flush()
			line, exists, value = "", "all rows", d.value
			switch {
			case d.message:
				exists = "log records"
			case d.of == ofEvent:
				exists = "spans, events, log records"
			case d.of == ofLink, d.role == view.RoleSpan:
				exists = "spans"
			}
		}
		for name := range strings.FieldsSeq(d.names) {
			line += " `" + name + "`"
		}
	}
	flush()
	return out.String()
}

// Comparing reports for each of the numbers whether a comparison with n selects it. The number none stands for a row
// without a number.
func Comparing(numbers []int64, none int64, op string, n int64) []bool {
	node := within(func(*columns.Block) []int64 { return numbers }, none, op, n)
	var set blockBits
	for i := range numbers {
		set[i/64] |= 1 << (i % 64)
	}
	node.refine(nil, 0, nil, &set)
	is := make([]bool, len(numbers))
	for i := range numbers {
		is[i] = set[i/64]>>(i%64)&1 != 0
	}
	return is
}

// UsesFlags reports whether a field has different values for two flags that differ only from usedFlags on.
func UsesFlags() bool {
	for _, d := range definitions {
		for i := range 1 << 16 {
			if d.flags != nil && d.flags(view.Flags(i)) != d.flags(view.Flags(i%usedFlags)) {
				return true
			}
		}
	}
	return false
}

// Tree returns the query with parentheses around each expression.
func Tree(q *Query) string { return q.root.String() }

func show(x any) string { return fmt.Sprint(x) }

func (f *filter) String() string {
	if f.x == nil {
		return "{}"
	}
	return "{" + f.x.String() + "}"
}
func (w *without) String() string { return "!" + show(w.x) }
func (b *both) String() string    { return "(" + show(b.a) + " " + b.op + " " + show(b.b) + ")" }

func (s *structural) String() string {
	op := s.op
	if s.negate {
		op = "!" + op
	}
	if s.union {
		op = "&" + op
	}
	return "(" + show(s.a) + " " + op + " " + show(s.b) + ")"
}
func (n *nested) String() string { return "(" + n.p.String() + ")" }

func (p *pipeline) String() string {
	parts := []string{show(p.set)}
	for _, st := range p.stages {
		parts = append(parts, show(st))
	}
	return strings.Join(parts, " | ")
}

func (s *stageFilter) String() string {
	if s.x == nil {
		return "{}"
	}
	return "{" + s.x.String() + "}"
}
func (s *stageBy) String() string       { return "by(" + list(s.list) + ")" }
func (s *stageCoalesce) String() string { return "coalesce()" }
func (s *stageSelect) String() string   { return "select(" + list(s.list) + ")" }
func (s *stageTop) String() string {
	name := "topk"
	if s.bottom {
		name = "bottomk"
	}
	return name + "(" + intValue(s.n).String() + ", " + s.x.String() + ")"
}
func (s *stageSort) String() string  { return "sort(" + s.x.String() + ")" }
func (s *stageLimit) String() string { return "limit(" + intValue(s.n).String() + ")" }
func (s *stageAggregate) String() string {
	t := s.text
	if s.set != nil {
		t = "compare(" + show(s.set) + ")"
	}
	if s.cond != nil {
		t += " " + s.cond.op + " " + s.cond.value.String()
	}
	if len(s.by) > 0 {
		t += " by(" + list(s.by) + ")"
	}
	return t
}

// Number returns a duration or a time in nanoseconds, and any other value as Any does.
func Number(v Value) any {
	if v.kind == kindDuration || v.kind == kindTime {
		return v.n
	}
	return v.Any()
}

// Kind returns the number of the kind of a value.
func Kind(v Value) int { return int(v.kind) }

// MaxGroups is maxGroups, for its test.
var MaxGroups = &maxGroups

// SmallSummaries reduces the limit of Summary, so that it processes few durations at once. The
// function undo restores the limit.
func SmallSummaries() (undo func()) {
	took := maxTook
	maxTook = 8
	return func() { maxTook = took }
}

// AttributeName is attributeName, for its test.
var AttributeName = attributeName

// NameIn parses a query that begins with an attribute, and returns the attribute's name.
func NameIn(text string) (string, error) {
	if _, err := Parse(text); err != nil {
		return "", err
	}
	tokens, err := lex(text)
	for i := range tokens {
		if t := &tokens[i]; t.kind == tokenWord {
			f, _ := fieldNamed(t, true)
			return f.name, nil
		}
	}
	return "", err
}
