package analyze

// Functions that the tests compare with their own results.
var (
	Tail        = tail
	MannWhitney = mannWhitney
	Pattern     = patternOf
)

// MaxPatterns is maxPatterns, for its test.
const MaxPatterns = maxPatterns
