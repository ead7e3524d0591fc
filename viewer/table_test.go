package viewer_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/querytest"
	"github.com/entrace-go/entrace/viewer"
)

// TestTableQueryIsRefusedBeforeItRuns asks for tables. A query that has run leaves the columns of
// its attributes in the view.
func TestTableQueryIsRefusedBeforeItRuns(t *testing.T) {
	v := viewOf(t, format.ET, querytest.Entries())
	h := serve(t, v, viewer.Options{Arguments: []string{"my app.et", "--clock", "shop=+1ms"}})
	for q, want := range map[string]string{
		"{ .user != nil } | count() by(.n)":          `entrace stats -q '{ .user != nil } | count() by(.n)' 'my app.et' --clock shop=+1ms`,
		`{ name = "it's" } | values(.n) by(span:id)`: `entrace stats -q '{ name = "it'\''s" } | values(.n) by(span:id)' 'my app.et' --clock shop=+1ms`,
	} {
		for _, path := range []string{"find?q=", "way?q=", "rows?only=", "rows?q="} {
			w := ask(h, http.MethodGet, "/api/"+path+url.QueryEscape(q))
			var got struct{ Command string }
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusUnprocessableEntity || got.Command != want {
				t.Errorf("%s%s: %d with the command %s, want %s (%v)", path, q, w.Code, got.Command, want, err)
			}
		}
	}
	for _, name := range []string{"user", "n"} {
		if _, ran := v.Columns().Kept(name); ran {
			t.Errorf("a query for a table has read the attribute %s of all rows", name)
		}
	}
	if w := ask(h, http.MethodGet, "/api/find?q="+url.QueryEscape("{ .user != nil } | count() > 1")); w.Code != http.StatusOK {
		t.Errorf("a condition on a count is answered with %d", w.Code)
	}
}
