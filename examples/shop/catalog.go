package main

import (
	"fmt"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// catalog returns the handler of the service that has the prices.
func catalog() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /price/{item}", func(w http.ResponseWriter, r *http.Request) {
		_, span := tracer.Start(r.Context(), "SELECT price", trace.WithSpanKind(trace.SpanKindClient),
			trace.WithAttributes(attribute.String("db.query.text", "select cents from price where item = ?")))
		time.Sleep(700 * time.Microsecond) // a database
		span.End()
		fmt.Fprintln(w, 1999)
	})
	return mux
}
