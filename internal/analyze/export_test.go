package analyze

// Functions whose results the tests check directly.
var (
	Tail        = tail
	MannWhitney = mannWhitney
	GrowsEvenly = growsEvenly
)

// MaxPatterns is maxPatterns, for its test.
const MaxPatterns = maxPatterns
