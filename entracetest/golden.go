package entracetest

import (
	"flag"
	"os"
	"slices"
	"strings"
)

// updates reports whether golden files should be written. This package does not define the flag -update, because a
// test program that defines the same flag would panic.
func updates() bool {
	if os.Getenv(updateEnv) == "1" {
		return true
	}
	f := flag.Lookup("update")
	return f != nil && f.Value.String() == "true"
}

// maxDifference is the maximum number of lines of each tree that are compared.
const maxDifference = 2000

// difference returns the lines of want and got. Lines only in want have the prefix "- ", lines only in got "+ ".
func difference(want, got string) string {
	a, b := strings.Split(strings.TrimSuffix(want, "\n"), "\n"), strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	a, b = a[:min(len(a), maxDifference)], b[:min(len(b), maxDifference)]
	same := make([][]int, len(a)+1) // same[i][k] is the length of the longest common subsequence of a[i:] and b[k:]
	for i := range same {
		same[i] = make([]int, len(b)+1)
	}
	for i := range slices.Backward(a) {
		for k := len(b) - 1; k >= 0; k-- {
			same[i][k] = max(same[i+1][k], same[i][k+1])
			if a[i] == b[k] {
				same[i][k] = same[i+1][k+1] + 1
			}
		}
	}
	var out strings.Builder
	for i, k := 0, 0; i < len(a) || k < len(b); {
		switch {
		case i < len(a) && k < len(b) && a[i] == b[k]:
			out.WriteString("  " + a[i] + "\n")
			i, k = i+1, k+1
		case k == len(b) || i < len(a) && same[i+1][k] >= same[i][k+1]:
			out.WriteString("- " + a[i] + "\n")
			i++
		default:
			out.WriteString("+ " + b[k] + "\n")
			k++
		}
	}
	return out.String()
}
