package query

// Tree returns the query with brackets around each expression.
func Tree(q *Query) string { return q.root.String() }

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

// SmallSummaries reduces the limits of Summary, so that it processes few rows and durations at once. The returned function
// restores the limits.
func SmallSummaries() (undo func()) {
	took := maxTook
	maxTook = 8
	return func() { maxTook = took }
}

// AttributeName is attributeName, for its test.
var AttributeName = attributeName

// NameIn parses a query and returns the name of the attribute that it begins with.
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
