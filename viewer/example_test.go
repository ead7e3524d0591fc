package viewer_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/viewer"
)

func Example() {
	t, err := convert.Open(context.Background(), []string{filepath.Join("..", "convert", "folded", "testdata", "shop.iet")}, nil)
	if err != nil {
		panic(err)
	}
	defer t.Close()
	h := viewer.New(t.View(), &viewer.Options{
		Base: "/trace", Names: t.Name, Hosts: []string{"example.com"},
		Authorize: func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer secret" },
	})
	mux := http.NewServeMux()
	mux.Handle("/trace/", h)
	for _, token := range []string{"", "Bearer secret"} {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/trace/api/meta", nil)
		r.Header.Set("Authorization", token)
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// 401
	// 200
}
