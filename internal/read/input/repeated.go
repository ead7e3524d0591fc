package input

import "context"

// repeatedKey is the key of a context for the function that gets the number of repeated spans.
type repeatedKey struct{}

// WithRepeated returns a context for a decoder. The decoder calls fn with the number of spans that it has left out
// because the input has them twice.
func WithRepeated(ctx context.Context, fn func(spans int)) context.Context {
	return context.WithValue(ctx, repeatedKey{}, fn)
}

// Repeated calls the function of [WithRepeated], if there is one and spans is not 0.
func Repeated(ctx context.Context, spans int) {
	if fn, ok := ctx.Value(repeatedKey{}).(func(spans int)); ok && spans > 0 {
		fn(spans)
	}
}
