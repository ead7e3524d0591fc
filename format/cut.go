package format

import "github.com/entrace-go/entrace/internal/placer"

// AttrTruncated is the attribute, Bool true, of an entry of which something was
// cut off.
const AttrTruncated = "!TRUNCATED"

// Cut returns s, or when it is longer than n bytes its beginning and "…", in at
// most n bytes and never ending within a rune.
func Cut(s string, n int) string { return placer.Cut(s, n) }
