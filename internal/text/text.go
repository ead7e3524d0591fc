// Package text shortens texts and compares words.
package text

import "strings"

// Head returns the longest prefix of s that has at most n bytes and consists of whole runes.
func Head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:max(n, 0)]
}

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
