package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// healthyFor is the time from the start on in which the provider takes cards of all tenants.
const healthyFor = 6 * time.Second

// payment returns the handler of the service that charges cards.
func payment() http.Handler {
	start := time.Now()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /charge", func(w http.ResponseWriter, r *http.Request) {
		if err := charge(r.Context(), r.URL.Query().Get("tenant"), time.Since(start) > healthyFor); err != nil {
			slog.ErrorContext(r.Context(), "card not charged", "err", err)
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	return mux
}

var errQuota = errors.New("provider: quota of the merchant is used up")

// charge asks the company that charges cards. After healthyFor, the company refuses the cards of one tenant.
func charge(ctx context.Context, tenant string, refuses bool) error {
	_, span := tracer.Start(ctx, "charge card", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attribute.String("tenant", tenant)))
	defer span.End()
	time.Sleep(4 * time.Millisecond) // the network
	if refuses && tenant == "acme" {
		span.RecordError(errQuota)
		span.SetStatus(codes.Error, errQuota.Error())
		return errQuota
	}
	return nil
}
