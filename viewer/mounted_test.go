package viewer_test

import (
	"net/http"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/querytest"
	"github.com/entrace-go/entrace/viewer"
)

// TestMounted checks that the code in the package's documentation serves the page and the trace.
func TestMounted(t *testing.T) {
	mux := http.NewServeMux()
	mux.Handle("/trace/", viewer.New(viewOf(t, format.ET, querytest.Entries()), &viewer.Options{Base: "/trace", Names: func(int) string { return "shop.et" }}))
	for _, path := range []string{"/trace/", "/trace/app.js", "/trace/api/meta"} {
		expect.Equal(t, ask(mux, "GET", path).Code, http.StatusOK, "%s", path)
	}
}
