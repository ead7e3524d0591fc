package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

func TestHandlerBadParameters(t *testing.T) {
	f := newRig(t)
	h := New(f.Control, nil)
	for _, c := range [][3]string{ // method, target, and a part of the error
		{"POST", "/snapshot?window=abc", "window"},
		{"POST", "/snapshot?window=-1s", "window"},
		{"POST", "/snapshot?window=0", "window"},
		{"POST", "/snapshot?window=", "window"},
		{"POST", "/snapshot?window=30", "window"},
		{"POST", "/snapshot?window=1s&window=2s", "window"},
		{"POST", "/snapshot?window=9999999999h", "window"},
		{"POST", "/snapshot?Window=1s", "Window"},
		{"POST", "/snapshot?for=1s", "for"},
		{"POST", "/snapshot?manual=yes", "manual"},
		{"POST", "/snapshot?manual", "manual"},
		{"POST", "/snapshot?name=", "name"},
		{"POST", "/snapshot?name=a/b", "name"},
		{"POST", "/snapshot?name=..", "name"},
		{"POST", "/snapshot?reason=" + strings.Repeat("x", 1025), "reason"},
		{"POST", "/snapshot?reason=%ff", "reason"},
		{"POST", "/snapshot?reason=%zz", "%zz"},
		{"POST", "/snapshot?a;b", "semicolon"},
		{"POST", "/snapshot?x=1&window=abc&y=2", "window"},
		{"POST", "/snapshot?x=1&window=abc&y=2", `"y"`},
		{"POST", "/start", "config"},
		{"POST", "/start?config=", "config"},
		{"POST", "/start?config=deep&for=-1s", "for"},
		{"POST", "/start?config=deep&window=1s", "window"},
		{"POST", "/stop/1?x=1", `"x"`},
		{"GET", "/?x=1", `"x"`},
		{"GET", "/traces/x?x=1", `"x"`},
	} {
		w := ask(h, c[0], c[1], "")
		if w.Code != 400 || !strings.Contains(answerOf(t, w)["error"].(string), c[2]) {
			t.Errorf("%s %.60s: %d %s, want 400 that names %s", c[0], c[1], w.Code, w.Body, c[2])
		}
	}
	var many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&many, "&%d%s=", i, strings.Repeat("x", 200))
	}
	if w := ask(h, "POST", "/snapshot?"+many.String(), ""); w.Code != 400 || w.Body.Len() > 8<<10 {
		t.Errorf("1,000 parameters: %d with %d bytes", w.Code, w.Body.Len())
	}
	for _, target := range []string{"/snapshot", "/start?config=deep", "/stop/1"} {
		for _, chunked := range []bool{false, true} {
			w := ask(h, "POST", target, "window=1s", func(r *http.Request) {
				if chunked {
					r.ContentLength = -1
				}
			})
			expect.Equal(t, w.Code, 400, "POST %s with a body", target)
		}
	}
	if f.asked() != 0 {
		t.Errorf("%d were asked for", f.asked())
	}
	expect.Equal(t, ask(h, "POST", "/snapshot", "", func(r *http.Request) { r.Body, r.ContentLength = nil, -1 }).Code, 201, "without a body")
}
