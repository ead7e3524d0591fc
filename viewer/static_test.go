package viewer_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/querytest"
	"github.com/entrace-go/entrace/viewer"
)

// TestStatic checks that a static page refers to no other file, and that its policy allows only its own script and
// style.
func TestStatic(t *testing.T) {
	h := viewer.New(viewOf(t, format.ET, querytest.Entries()), nil)
	var page bytes.Buffer
	must(t, h.Static(t.Context(), &page, nil))
	text := page.String()
	if found := regexp.MustCompile(`(?i)(src|href)\s*=\s*"[^"]*"`).FindAllString(text, -1); len(found) != 1 || found[0] != `href="data:,"` {
		t.Errorf("the page names %q", found)
	}
	for _, part := range []*regexp.Regexp{regexp.MustCompile(`(?s)<style>(.*?)</style>`), regexp.MustCompile(`(?s)<script type="module">(.*?)</script>`)} {
		m := part.FindStringSubmatch(text)
		if m == nil {
			t.Fatal("the page has no script or style")
		}
		sum := sha256.Sum256([]byte(m[1]))
		if !strings.Contains(text, "&#39;sha256-"+strings.ReplaceAll(base64.StdEncoding.EncodeToString(sum[:]), "+", "&#43;")) && !strings.Contains(text, "&#39;sha256-"+base64.StdEncoding.EncodeToString(sum[:])) {
			t.Error("the policy does not allow the script or the style")
		}
	}
	if strings.Contains(text, "unsafe") || !strings.Contains(text, "default-src &#39;none&#39;") {
		t.Error("the policy allows more")
	}
	var part bytes.Buffer
	must(t, h.Static(t.Context(), &part, &viewer.StaticOptions{Query: "payment"}))
	if part.Len() >= page.Len() {
		t.Errorf("a part has %d bytes, all has %d", part.Len(), page.Len())
	}
	for _, o := range []viewer.StaticOptions{{MaxRows: 3}, {MaxBytes: 1000}} {
		err := h.Static(t.Context(), new(bytes.Buffer), &o)
		if size, ok := errors.AsType[*viewer.SizeError](err); !ok || size.Rows <= 3 {
			t.Errorf("got %v", err)
		}
	}
	for _, q := range []string{"{", "{} | count()"} {
		if err := h.Static(t.Context(), new(bytes.Buffer), &viewer.StaticOptions{Query: q}); err == nil {
			t.Errorf("%s is no error", q)
		}
	}
}
