package viewer_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/querytest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/viewer"
)

// TestRequests compares answers with testdata/requests.txt. No answer may let another page read it, and no refusal may name
// the trace.
func TestRequests(t *testing.T) {
	h := served(t, querytest.Entries())
	tracetest.Golden(t, "testdata/requests.txt", *viewer.Update, func(lines string) string {
		var said strings.Builder
		for line := range strings.SplitSeq(lines, "\n") {
			line, with, _ := strings.Cut(line, " with ")
			var header []string
			for part := range strings.SplitSeq(with, ", ") {
				name, value, _ := strings.Cut(part, ":")
				header = append(header, name, strings.TrimSpace(value))
			}
			method, path, _ := strings.Cut(line, " ")
			path, asked, _ := strings.Cut(path, "?")
			values, err := url.ParseQuery(asked)
			must(t, err)
			w := ask(h, method, path+"?"+values.Encode(), header...)
			if w.Code >= 400 && strings.Contains(w.Body.String(), "shop") {
				t.Errorf("%s says %s", line, w.Body)
			}
			head := w.Header()
			if head.Get("Access-Control-Allow-Origin") != "" || !strings.HasPrefix(head.Get("Content-Security-Policy"), "default-src 'none'") || head.Get("X-Content-Type-Options") != "nosniff" || len(head.Values("Set-Cookie")) > 0 {
				t.Errorf("%s has the header %v", line, head)
			}
			body := ""
			switch {
			case path == "/api/rows":
				body = rowsOf(t, h, values.Encode()).text()
			case json.Valid(w.Body.Bytes()):
				body = w.Body.String()
			}
			fmt.Fprintf(&said, "%s: %d %s\n", path, w.Code, strings.TrimSpace(body))
		}
		return said.String()
	})
}
