// Package text shortens texts and compares words.
package text

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Head returns the longest prefix of s that has at most n bytes and consists of whole characters. A character of more
// than 64 bytes is cut between runes.
func Head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	n = max(n, 0)
	for at := n; at > 0 && n-at < 64; {
		before, size := utf8.DecodeLastRuneInString(s[:at])
		if after, _ := utf8.DecodeRuneInString(s[at:]); !joined(s[:at], before, after) {
			return s[:at]
		}
		at -= size
	}
	return s[:n]
}

// joined reports whether a rune at the end of s and the rune after it are parts of one character, such as an emoji of
// several pictures.
func joined(s string, before, after rune) bool {
	const joiner = '\u200d'
	switch {
	case before == joiner, after == joiner, unicode.Is(unicode.M, after), after >= 0x1f3fb && after <= 0x1f3ff, after >= 0xe0020 && after <= 0xe007f:
		return true
	case !isFlag(before) || !isFlag(after):
		return false
	}
	halves := utf8.RuneCountInString(s) - utf8.RuneCountInString(strings.TrimRightFunc(s, isFlag))
	return halves%2 == 1
}

// isFlag reports whether a rune is half of a flag.
func isFlag(r rune) bool { return r >= 0x1f1e6 && r <= 0x1f1ff }

// Cut returns s if it has at most n bytes. Otherwise it returns a prefix of whole runes followed by "…", with at
// most n bytes in total.
func Cut(s string, n int) string {
	const ellipsis = "…"
	if len(s) <= n {
		return s
	}
	if n < len(ellipsis) {
		return ""
	}
	return Head(s, n-len(ellipsis)) + ellipsis
}

// Distance returns the edit distance of a and b, ignoring case. This is the number of bytes to insert, remove,
// change or swap with their neighbor to turn a into b. If a or b has more than 64 bytes, it returns 64.
func Distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	a, b = strings.ToLower(a), strings.ToLower(b)
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			n := row[j]
			if a[i] != b[j] {
				n = 1 + min(n, row[j+1], next[j])
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				n = min(n, 1+before[j-1])
			}
			next[j+1] = n
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}

// NearestFew returns up to n names, those with the smallest Distance from word first.
func NearestFew(word string, names []string, n int) []string {
	distances := make(map[string]int)
	for _, name := range names {
		distances[name] = Distance(word, name)
	}
	few := slices.SortedStableFunc(slices.Values(names), func(a, b string) int { return distances[a] - distances[b] })
	return few[:min(n, len(few))]
}

// Nearest returns the name with the smallest Distance from word. It returns "" if every Distance is more than
// most.
func Nearest(word string, names []string, most int) string {
	best, least := "", most+1
	for _, name := range names {
		if d := Distance(word, name); d < least {
			best, least = name, d
		}
	}
	return best
}
