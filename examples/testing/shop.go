// Package shop is a small service. Its tests are examples for package entracetest. It has a handler that queries
// a database, an interceptor for gRPC, and a worker in the background.
package shop

import (
	"context"
	"database/sql"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
)

// A Shop sells things.
type Shop struct {
	DB     *sql.DB
	Tracer trace.Tracer
	Log    *slog.Logger
}

// ServeHTTP computes the total price of the things in the query of the URL, as in "/?things=mug,pen", and records
// it as an attribute of the span.
func (s *Shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, span := s.Tracer.Start(r.Context(), "GET /price", trace.WithSpanKind(trace.SpanKindServer))
	defer span.End()
	total, err := s.price(ctx, strings.Split(r.URL.Query().Get("things"), ","))
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
		s.Log.ErrorContext(ctx, "no price", "err", err)
		http.Error(w, "no price", http.StatusInternalServerError)
		return
	}
	span.SetAttributes(attribute.Int("price", total))
}

// price returns the total price of things. It uses one query.
func (s *Shop) price(ctx context.Context, things []string) (total int, err error) {
	ctx, span := s.Tracer.Start(ctx, "SELECT price", trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("db.system.name", "fake"), attribute.Int("things", len(things))))
	defer span.End()
	err = s.DB.QueryRowContext(ctx, "SELECT sum(price) FROM things WHERE name IN (?)", strings.Join(things, ",")).Scan(&total)
	if err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, err.Error())
	}
	return total, err
}

// Work sends mail each minute until ctx is done.
func (s *Shop) Work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Minute):
		}
		_, span := s.Tracer.Start(ctx, "send mail")
		time.Sleep(100 * time.Millisecond) // simulates a mail server
		span.End()
	}
}

// Traced returns an interceptor that makes a span of each call.
func Traced(tracer trace.Tracer) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		ctx, span := tracer.Start(ctx, strings.TrimPrefix(info.FullMethod, "/"), trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		reply, err := handler(ctx, req)
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		return reply, err
	}
}
