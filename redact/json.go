package redact

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"unsafe"
)

// maxDepth is the maximum nesting depth of JSON values. Texts with deeper values are searched as plain texts.
const maxDepth = 64

// JSON returns the replacement for s, a JSON text that is the value of an attribute. The parameter v is the verdict
// for the attribute's key. If s is the OTLP/JSON text of an AnyValue, the replacement is an AnyValue as well. The key
// of a member is its path, such as "a.b.c". In an object with the members "key" (or "name") and "value", the value of
// "key" or "name" is the attribute key for "value". Numbers and booleans are kept. If the whole value is a secret,
// the result is not JSON, and isText is true.
func (r *Redactor) JSON(v Verdict, key, s string) (out string, isText bool) {
	switch {
	case r == nil || v == Keep:
		return s, false
	case v == Replace:
		if isNumber(s) {
			return s, false
		}
		t := r.whole(key, s)
		return t, t != s
	}
	if t, ok := r.walk(key, s); ok {
		return t, false
	}
	t := r.text(key, s)
	return t, t != s
}

// walk returns a JSON text with its secrets replaced. The result ok is false if the text is not valid JSON.
func (r *Redactor) walk(key, s string) (out string, ok bool) {
	w := walker{f: finder{r: r.silent, s: s}, path: append(make([]byte, 0, 128), key...)}
	if !w.whole() {
		return "", false
	}
	if len(w.f.edits) == 0 {
		return s, true
	}
	if r != r.silent { // walk again and count: the first walk counted nothing, because the text could have been invalid
		w = walker{f: finder{r: r, s: s}, path: append(w.path[:0], key...)}
		w.whole()
	}
	return w.f.replace(key), true
}

// isNumber reports whether a JSON text is a number, a boolean or null, or an AnyValue that holds a number or
// a boolean.
func isNumber(s string) bool {
	s = strings.TrimLeft(s, " \t\r\n")
	if s == "" || s[0] == '{' {
		return anyValueKind(s) == anyNumber
	}
	return s[0] != '"' && s[0] != '['
}

// The kinds of values in an AnyValue.
const (
	notAny = iota
	anyNumber
	anyText
)

// anyValueKind returns the kind of the value in s if s is an AnyValue, and notAny otherwise.
func anyValueKind(s string) int {
	if s == "" || s[0] != '{' {
		return notAny
	}
	s = strings.TrimLeft(s[1:], " \t\r\n")
	for _, name := range [...]string{`"intValue"`, `"doubleValue"`, `"boolValue"`} {
		if strings.HasPrefix(s, name) {
			return anyNumber
		}
	}
	for _, name := range [...]string{`"stringValue"`, `"bytesValue"`, `"kvlistValue"`, `"arrayValue"`} {
		if strings.HasPrefix(s, name) {
			return anyText
		}
	}
	return notAny
}

// A walker parses a JSON text and collects the edits that replace its secrets.
type walker struct {
	f     finder
	i     int
	path  []byte
	depth int
}

// whole parses the text. It returns false if the text is not valid JSON.
func (w *walker) whole() bool {
	ok := w.read(Search)
	w.blank()
	return ok && w.i == len(w.f.s)
}

func (w *walker) blank() {
	for w.i < len(w.f.s) && strings.IndexByte(" \t\r\n", w.f.s[w.i]) >= 0 {
		w.i++
	}
}

// accept skips blanks and the byte c. It returns false if the next byte is not c.
func (w *walker) accept(c byte) bool {
	is := w.next(c)
	if is {
		w.i++
	}
	return is
}

// next skips blanks, and reports whether the next byte is c.
func (w *walker) next(c byte) bool {
	w.blank()
	return w.i < len(w.f.s) && w.f.s[w.i] == c
}

// read parses a value with the verdict v. A verdict other than Search applies to everything within the value.
func (w *walker) read(v Verdict) bool {
	w.blank()
	s, from := w.f.s, w.i
	if from == len(s) {
		return false
	}
	switch s[from] {
	case '"':
		text, ok := w.text()
		if ok {
			w.string(v, from, text)
		}
		return ok
	case '{', '[':
		w.depth++
		if w.depth > maxDepth {
			return false
		}
		within := v
		if v == Replace {
			within = Keep // replaceWhole replaces the whole value
		}
		ok := s[from] == '{' && w.object(within) || s[from] == '[' && w.array(within)
		w.depth--
		if ok && v == Replace && s[from+1:w.i-1] != "" {
			w.replaceWhole(from)
		}
		return ok
	}
	for w.i < len(s) && strings.IndexByte(" \t\r\n,:]}\"{[", s[w.i]) < 0 {
		w.i++
	}
	word := s[from:w.i]
	return word == "true" || word == "false" || word == "null" || word != "" && (digit(word[0]) || word[0] == '-')
}

// replaceWhole replaces the object or list that begins at from.
func (w *walker) replaceWhole(from int) {
	text := w.f.s[from:w.i]
	with := `"` + w.f.r.replacement(text) + `"`
	switch anyValueKind(text) {
	case anyNumber:
		return
	case anyText:
		with = `{"stringValue":` + with + `}`
	}
	w.f.edits = append(w.f.edits, edit{from, w.i, ruleKey, with})
}

// text parses a string, and returns it without quotes and escapes.
func (w *walker) text() (string, bool) {
	s, from := w.f.s, w.i+1
	escaped := false
	for w.i = from; w.i < len(s); w.i++ {
		switch c := s[w.i]; {
		case c == '"':
			raw := s[from:w.i]
			w.i++
			if !escaped {
				return raw, true
			}
			var text string
			err := json.Unmarshal([]byte(s[from-1:w.i]), &text)
			return text, err == nil
		case c == '\\':
			escaped = true
			w.i++
		case c < ' ':
			return "", false
		}
	}
	return "", false
}

// string adds an edit for a string, if it contains a secret. The string begins at offset from; text is its
// content.
func (w *walker) string(v Verdict, from int, text string) {
	if v == Keep {
		return
	}
	if w.f.r.p.standard && v == Search && isLong(text) && isAuth(w.key()) {
		v = Replace
	}
	t := w.f.r.Value(v, w.key(), text)
	if t != text {
		w.edit(from, t)
	}
}

// isAuth reports whether a path ends with auth, where Docker stores user:password in Base64.
func isAuth(path string) bool { return path == "auth" || strings.HasSuffix(path, ".auth") }

// edit adds an edit that replaces the bytes from offset from to w.i by text as a JSON string. The call of
// Value or Text that found the secret has already counted it.
func (w *walker) edit(from int, text string) {
	b, _ := json.Marshal(text) // marshaling a string never fails
	w.f.edits = append(w.f.edits, edit{from, w.i, counted, string(b)})
}

// array parses a list. In a list of arguments, the argument after a flag such as --password is a secret.
func (w *walker) array(v Verdict) bool {
	w.i++
	if w.accept(']') {
		return true
	}
	secret, login := false, false
	for {
		isText := w.next('"')
		from := w.i
		if isText {
			text, ok := w.text()
			if !ok {
				return false
			}
			if secret && v == Search && !strings.HasPrefix(text, "-") && !isPlain(text) {
				w.string(Replace, from, text)
			} else {
				w.string(v, from, text)
			}
			login = login || text == "login" || text == "sshpass"
			secret = w.f.r.p.standard && (login && text == "-p" || strings.HasPrefix(text, "--") && !strings.Contains(text, "=") && w.f.secretName(text))
		} else {
			if !w.read(v) {
				return false
			}
			secret = false
		}
		switch {
		case w.accept(']'):
			return true
		case !w.accept(','):
			return false
		}
	}
}

// object parses an object.
func (w *walker) object(v Verdict) bool {
	w.i++
	if w.accept('}') {
		return true
	}
	key, hasKey := "", false // the value of a member "key" or "name", which is the key of a following member "value"
	for {
		if !w.next('"') {
			return false
		}
		from := w.i
		name, ok := w.text()
		if !ok {
			return false
		}
		if v == Search {
			if t := w.f.r.Text(name); t != name {
				w.edit(from, t)
			}
		}
		if !w.accept(':') {
			return false
		}
		isString := w.next('"')
		from = w.i
		switch {
		case isString && (strings.EqualFold(name, "key") || strings.EqualFold(name, "name")):
			key, ok = w.text()
			if ok {
				hasKey = true
				w.i = from
				ok = w.member(v, name)
			}
		case hasKey && strings.EqualFold(name, "value"):
			ok = w.member(v, key)
		case isString && name == "bytesValue" && v == Search:
			ok = w.bytes()
		default:
			ok = w.member(v, name)
		}
		switch {
		case !ok:
			return false
		case w.accept('}'):
			return true
		case !w.accept(','):
			return false
		}
	}
}

// member parses the value of a member.
func (w *walker) member(v Verdict, name string) bool {
	mark := len(w.path)
	if mark > 0 {
		w.path = append(w.path, '.')
	}
	w.path = append(w.path, name[:min(len(name), maxName)]...)
	defer func() { w.path = w.path[:mark] }()
	if v == Search {
		v = w.f.r.Key(w.key())
	}
	return w.read(v)
}

// maxPath is the number of bytes at the end of a path that are checked. The bound makes the running time
// linear.
const maxPath = 512

// key returns the end of the path as a string that shares its memory. The result is valid until the path
// changes.
func (w *walker) key() string {
	end := w.path[max(0, len(w.path)-maxPath):]
	return unsafe.String(unsafe.SliceData(end), len(end))
}

// bytes parses a bytesValue, which is in Base64.
func (w *walker) bytes() bool {
	from := w.i
	text, ok := w.text()
	if !ok {
		return false
	}
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return true
	}
	if t := w.f.r.Text(string(b)); t != string(b) {
		w.edit(from, base64.StdEncoding.EncodeToString([]byte(t)))
	}
	return true
}
