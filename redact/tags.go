package redact

import "strings"

// tag finds the content of an XML element whose end tag begins at i.
func (f *finder) tag(i int) {
	s := f.s
	if !strings.HasPrefix(s[i:], "</") {
		return
	}
	name := s[i+len("</"):]
	name = name[:min(len(name), maxName)]
	if n := strings.IndexByte(name, '>'); n >= 0 {
		name = name[:n]
	}
	if !f.secretName(name) {
		f.entry(name, i)
		return
	}
	low := max(0, i-maxElement)
	from := strings.LastIndex(s[low:i], "<"+name)
	if from < 0 {
		return
	}
	from += low
	if n := strings.IndexByte(s[from:i], '>'); n >= 0 && !isPlain(s[from+n+1:i]) {
		f.add(from+n+1, i, ruleParameter)
	}
}

// entry finds the content of an XML element that has the name of a secret in an attribute, as in
// <entry key="password">, or in the element <key> before it. The end tag of the element name begins at i.
func (f *finder) entry(name string, i int) {
	low := max(0, i-2*maxName)
	before := f.s[low:i]
	content := strings.LastIndexByte(before, '>') + 1
	if content == 0 || !isLong(before[content:]) {
		return
	}
	from := strings.LastIndex(before[:content], "<"+name)
	if from < 0 {
		return
	}
	_, key, _ := strings.Cut(before[from:content], `key="`)
	if key == "" {
		_, key, _ = strings.Cut(before[from:content], `name="`)
	}
	key, _, _ = strings.Cut(key, `"`)
	if rest, isNext := strings.CutSuffix(strings.TrimRight(before[:from], blank+"\r\n"), "</key>"); isNext {
		key = rest[strings.LastIndexByte(rest, '>')+1:]
	}
	if f.secretName(key) {
		f.add(low+content, i, ruleParameter)
	}
}
