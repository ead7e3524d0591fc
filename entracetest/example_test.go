package entracetest_test

import (
	"context"
	"log/slog"
	"testing"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/entracetest"
)

// A shop is the service under test in the examples.
type shop struct {
	tracer trace.Tracer
	log    *slog.Logger
}

func (s *shop) buy(ctx context.Context, item string) {
	ctx, span := s.tracer.Start(ctx, "buy")
	defer span.End()
	_, query := s.tracer.Start(ctx, "SELECT stock")
	query.End()
	if item == "teapot" {
		s.log.WarnContext(ctx, "out of stock", "item", item)
		span.SetStatus(codes.Error, "out of stock")
	}
}

// A test checks the number of rows that a query selects.
func Example() {
	_ = func(t *testing.T) {
		tr := entracetest.New(t)
		s := shop{tr.TracerProvider().Tracer("shop"), tr.Logger()}
		s.buy(t.Context(), "mug")
		tr.Expect(`{ name = buy && status != error }`, 1)
		tr.ExpectNone(`{ level >= warn }`)
	}
}

// A test limits how often something is done: here queries for each request.
func ExampleTrace_AtMost() {
	_ = func(t *testing.T) {
		tr := entracetest.New(t)
		s := shop{tr.TracerProvider().Tracer("shop"), tr.Logger()}
		s.buy(t.Context(), "mug")
		tr.AtMost(`{ name = "SELECT stock" }`, 1)
	}
}

// A test reads the rows that it has recorded.
func ExampleTrace_Expect_failed() {
	_ = func(t *testing.T) {
		tr := entracetest.New(t)
		s := shop{tr.TracerProvider().Tracer("shop"), tr.Logger()}
		s.buy(t.Context(), "teapot")
		tr.Expect(`{ name = buy && status = error } > { level = warn && .item = teapot }`, 1)
	}
}

// TestExamples runs the tests of the examples.
func TestExamples(t *testing.T) {
	tr := entracetest.New(t)
	s := shop{tr.TracerProvider().Tracer("shop"), tr.Logger()}
	s.buy(t.Context(), "mug")
	tr.Expect(`{ name = buy && status != error }`, 1)
	tr.ExpectNone(`{ level >= warn }`)
	tr.AtMost(`{ name = "SELECT stock" }`, 1)
	s.buy(t.Context(), "teapot")
	tr.Expect(`{ name = buy && status = error } > { level = warn && .item = teapot }`, 1)
}
