package analyze_test

import (
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/querytest"
)

var (
	must         = expect.Must
	viewOf       = querytest.View
	runOn        = querytest.Run
	everything   = querytest.Everything
	hasException = querytest.HasException
	span         = querytest.Span
	shop         = querytest.Shop
	fixed        = querytest.Fixed
)
