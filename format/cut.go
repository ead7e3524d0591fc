package format

import "unicode/utf8"

// AttrTruncated is the attribute, Bool true, of an entry of which something was
// cut off.
const AttrTruncated = "!TRUNCATED"

// fit returns a copy of e that is cut to about limit bytes and marked. What tells
// where an entry belongs stays whole.
func fit(e *TraceEntry, limit int) *TraceEntry {
	c := *e
	c.Attributes = make([]Attribute, 0, min(len(e.Attributes), MaxAttributes))
	// As many of the user's as get a readable share each.
	users := MaxAttributes - maxOptional - 1
	for i := range e.Attributes {
		if _, user := UserName(e.Attributes[i].Name); !user {
			users--
		}
	}
	users = min(users, limit/(8*minShare))
	for _, a := range e.Attributes {
		if _, user := UserName(a.Name); user {
			if users--; users < 0 {
				continue
			}
		}
		c.Attributes = append(c.Attributes, a)
	}
	// Half of the limit is for the longest texts, shared evenly: that leaves
	// the short ones whole.
	share := max(limit/2/(2*len(c.Attributes)+8), minShare)
	c.Message.Value = Cut(c.Message.Value, share)
	c.Metadata.Name = Cut(c.Metadata.Name, share)
	c.Metadata.Target = Cut(c.Metadata.Target, share)
	c.Metadata.ModulePath.Value = Cut(c.Metadata.ModulePath.Value, share)
	c.Metadata.File.Value = Cut(c.Metadata.File.Value, share)
	for i := range c.Attributes {
		a := &c.Attributes[i]
		if _, user := UserName(a.Name); user {
			a.Name = Cut(a.Name, share)
		}
		switch a.Value.kind {
		case KindString:
			if s := a.Value.Text(); len(s) > share {
				a.Value = StringValue(Cut(validText(s[:share])+ellipsis, share))
			}
		case KindBytes:
			a.Value = BytesValue(a.Value.Bytes()[:min(share, int(a.Value.lo))])
		}
	}
	if _, marked := e.Attribute(AttrTruncated); !marked {
		c.Attributes = append(c.Attributes, Attribute{Name: AttrTruncated, Value: BoolValue(true)})
	}
	return &c
}

// minShare is what every text keeps: an id is whole in it.
const minShare = 64

// ellipsis ends a text that was cut.
const ellipsis = "…"

// Cut returns s, or when it is longer than n bytes its beginning and "…", in at
// most n bytes and never ending within a rune.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n -= len(ellipsis)
	if n < 0 {
		return ""
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + ellipsis
}

// validText returns s with U+FFFD for each byte that is not UTF-8.
func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string([]rune(s))
}
