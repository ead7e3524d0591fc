package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
)

// shop returns the handler of the service that customers see.
func shop(payment, catalog string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /cart", func(w http.ResponseWriter, r *http.Request) {
		for item := range 5 { // a request for each item of the cart
			if err := get(r.Context(), fmt.Sprintf("http://%s/price/%d", catalog, item)); err != nil {
				fail(w, r, "no price", err)
				return
			}
		}
	})
	mux.HandleFunc("GET /buy", func(w http.ResponseWriter, r *http.Request) {
		tenant := r.URL.Query().Get("tenant")
		slog.InfoContext(r.Context(), "order taken", "tenant", tenant)
		if err := get(r.Context(), "http://"+payment+"/charge?tenant="+tenant); err != nil {
			fail(w, r, "no order", err)
		}
	})
	return mux
}

func fail(w http.ResponseWriter, r *http.Request, text string, err error) {
	slog.ErrorContext(r.Context(), text, "err", err)
	http.Error(w, text, http.StatusBadGateway)
}

// get sends a request to another service.
func get(ctx context.Context, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody) //nolint:gosec // run chose the address
	if err != nil {
		return err
	}
	resp, err := client.Do(req) //nolint:gosec // likewise
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, text)
	}
	return err
}
