package analyze_test

import (
	"github.com/entrace-go/entrace/internal/testkit/querytest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

var (
	must         = tracetest.Must
	viewOf       = querytest.View
	runOn        = querytest.Run
	everything   = querytest.Everything
	hasException = querytest.HasException
	span         = querytest.Span
	shop         = querytest.Shop
	fixed        = querytest.Fixed
)
