package redact

import "strings"

// maxBlock is the number of bytes of a block of YAML that are searched for values, so that the running time is linear.
const maxBlock = 4 << 10

// yaml finds the value in name: value. The name ends at end, and i is just after the colon. The value can have a
// tag or an anchor, and can be in the lines that follow.
func (f *finder) yaml(end, i int) {
	s := f.s
	i += blanks(s[i:])
	for range 2 {
		if i == len(s) || s[i] != '!' && s[i] != '&' {
			break
		}
		word := strings.IndexAny(s[i:], " \t\n")
		if word < 0 || s[i+word] == '\n' { // not a tag or an anchor, because no value follows
			break
		}
		i += word + blanks(s[i+word:])
	}
	from := i
	isText := i < len(s) && (s[i] == '|' || s[i] == '>')
	if isText {
		i += 1 + len(s[i+1:]) - len(strings.TrimLeft(s[i+1:], "+-0123456789"))
	}
	i += blanks(s[i:])
	if lineBreak(s, i) > 0 {
		f.block(end, i, isText)
	} else if from < len(s) {
		f.setting(end, from, true)
	}
}

// lineBreak returns the size of the line break at i, which can be escaped. It returns 0 if there is none.
func lineBreak(s string, i int) int {
	for _, b := range [...]string{"\n", "\r\n", `\n`, `\r\n`} {
		if strings.HasPrefix(s[i:], b) {
			return len(b)
		}
	}
	return 0
}

// lineEnd returns where the line ends that begins at i. If line breaks are escaped, a quote ends the last line.
func lineEnd(s string, i int, isEscaped bool) int {
	ends := "\r\n"
	if isEscaped {
		ends = "\"\\"
	}
	for ; i < len(s); i++ {
		n := strings.IndexAny(s[i:], ends)
		if n < 0 {
			break
		}
		i += n
		if s[i] != '\\' || lineBreak(s, i) > 0 {
			return i
		}
	}
	return len(s)
}

// block finds the values in the lines that are indented below the name that ends at end. The line break before these
// lines is at i. If isText is set, the block is one text.
func (f *finder) block(end, i int, isText bool) {
	s := f.s
	name, from, quote := f.quotedBefore(end)
	if !f.secretName(name) {
		return
	}
	from -= len(quote)
	low := max(0, from-maxName)
	before := strings.TrimRight(s[low:from], " -")
	indent := from - low - len(before)
	isLine := before == "" || before[len(before)-1] == '\n' || strings.HasSuffix(before, `\n`)
	begin, to := 0, i
	limit := len(s)
	if !isText {
		limit = min(limit, i+maxBlock)
	}
	for i < limit {
		size := lineBreak(s, i)
		if size == 0 {
			break
		}
		isEscaped := s[i] == '\\'
		at := i + size + blanks(s[i+size:])
		column := at - i - size
		i = lineEnd(s, at, isEscaped)
		isItem := !isText && column == indent && strings.HasPrefix(s[at:], "- ")
		switch {
		case at == i:
			continue
		case column <= indent && !isItem:
			limit = 0
		case !isText:
			f.item(name, at, i)
			if !isLine { // the indentation of the name is not known
				limit = 0
			}
		default:
			if begin == 0 {
				begin = at
			}
			to = i
		}
	}
	if begin > 0 && !isPlain(s[begin:to]) {
		f.add(begin, to, ruleParameter)
	}
}

// item finds the value in the line f.s[from:to], which is below the key name.
func (f *finder) item(name string, from, to int) {
	for strings.HasPrefix(f.s[from:to], "- ") {
		from += 2 + blanks(f.s[from+2:to])
	}
	line := f.s[from:to]
	child, value, isMember := strings.Cut(line, ":")
	isMember = isMember && (value == "" || value[0] == ' ')
	if isMember {
		if !f.secretName(name + "." + child) {
			return
		}
		from = to - len(strings.TrimLeft(value, blank))
	}
	end := f.end // find searches the block again, because a line that is not replaced can contain a secret
	text := strings.TrimRight(f.s[from:to], blank)
	if isMember || isLong(text) && strings.IndexByte(text, ' ') < 0 {
		if quote, _ := quoteAt(f.s, from); quote != "" {
			f.value(from)
		} else if !isPlain(text) {
			f.add(from, from+len(text), ruleParameter)
		}
	}
	f.end = end
}
