package analyze

// Functions whose results the tests check directly.
var (
	Tail        = tail
	MannWhitney = mannWhitney
)

// MaxPatterns is maxPatterns, for its test.
const MaxPatterns = maxPatterns
