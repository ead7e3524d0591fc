package redact

import "strings"

// dashes finds the argument of a flag such as --password, or a private key. A dash is at i.
func (f *finder) dashes(i int) {
	s := f.s
	if i > 0 && (isName(s[i-1]) && s[i-1] != '[' || s[i-1] == '-') {
		return
	}
	if strings.HasPrefix(s[i:], pemBegin) {
		f.privateKey(i)
		return
	}
	from := i + 1
	if from < len(s) && s[from] == '-' {
		from++
	}
	end := from
	for end < len(s) && end-from < maxName && isName(s[end]) {
		end++
	}
	name := s[from:end]
	// In a list of arguments, the flag and its value can be in quotes.
	next := end + len(s[end:]) - len(strings.TrimLeft(s[end:], "\"',"))
	switch {
	case name == "u" || name == "user" || name == "proxy-user":
		f.userFlag(i, next)
		return
	case from > i+1 || name == "" || f.secretName(name):
	case name[0] == 'u':
		f.userFlag(i, from)
	case commands[name[0]] != nil:
		f.shortFlag(i, end, next)
		return
	}
	if next == len(s) || s[next] != ' ' || !f.secretName(name) {
		return
	}
	next++
	if next < len(s) && s[next] != '-' {
		f.value(next)
	}
}

// commands maps a flag of one letter to the commands that take a password with it.
var commands = [256][]string{
	'p': {"sshpass", "login", "mongo", "cqlsh", "mysql", "mariadb", "7z"}, 'a': {"redis-cli"}, 'P': {"zip", "sqlcmd"}, 'w': {"ldap"},
}

// shortFlag finds the value of -p value, -p=value and -pvalue. The flag is at i; its word ends at end, and the
// text after its quotes is at next.
func (f *finder) shortFlag(i, end, next int) {
	s, from := f.s, i+len("-p")
	isJoined := end > from || end < len(s) && isQuote(s[end]) && next < len(s) && s[next] != ' '
	switch {
	case isJoined:
	case end < len(s) && s[end] == '=':
		from = end + 1
	case next < len(s) && s[next] == ' ':
		from = next + 1
	default:
		return
	}
	before := s[max(0, i-maxList):i]
	for _, command := range commands[s[i+1]] {
		if !strings.Contains(before, command) {
			continue
		}
		_, size := quoteAt(s, from)
		value := s[min(len(s), from+size):]
		value = value[:valueEnd(value, 0)]
		takesWord := command != "mysql" && command != "mariadb" // in commands of MySQL, the word after -p is the database
		if isJoined && strings.ContainsAny(value, "0123456789") || !isJoined && takesWord && strings.Trim(value, "0123456789") != "" {
			f.value(from)
		}
		return
	}
}

// userFlag finds the credentials in curl's -u user:password and --user user:password. The flag is at i, and the text
// after the flag is at next.
func (f *finder) userFlag(i, next int) {
	s := f.s
	if next+1 >= len(s) || !strings.Contains(s[max(0, i-maxAuthority):i], "curl") {
		return
	}
	_, size := quoteAt(s, next+1)
	from := next + 1 + size
	end := valueEnd(s, from)
	if n := strings.IndexByte(s[from:end], ':'); n > 0 && !strings.HasPrefix(s[from+n:], "://") {
		f.add(from, end, ruleUserInfo)
	}
}
