package redact_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/redact"
)

// eachLine calls fn with the lines of a file of testdata that are no comments, without the mark in front of some of them.
func eachLine(t *testing.T, name, mark string, fn func(line string, marked bool)) {
	t.Helper()
	b := tracetest.ReadFile(t, "testdata/"+name)
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSuffix(line, "\n"); line[0] != '#' {
			line, marked := strings.CutPrefix(line, mark+" ")
			fn(line, marked)
		}
	}
}

// recorded returns what a recorder makes of a line: KEY§VALUE or a text.
func recorded(r *redact.Redactor, line string) (was, now string) {
	key, value, isAttribute := strings.Cut(line, "§")
	if !isAttribute {
		return line, r.Text(line)
	}
	return value, r.Value(r.Key(key), key, value)
}

// TestForms: secrets are found in the forms in which programs print them.
func TestForms(t *testing.T) {
	r := redact.New(nil, nil)
	all, found := 0, 0
	eachLine(t, "forms.txt", "missed", func(line string, missed bool) {
		_, now := recorded(r, strings.ReplaceAll(filled(line), "⏎", "\n"))
		is := !strings.Contains(now, filled("{14}"))
		if all++; is {
			found++
		}
		if is == missed {
			t.Errorf("found %v: %s", is, line)
		}
	})
	if all < 150 || found*100 < all*95 {
		t.Errorf("%d of %d are found", found, all)
	}
}

// TestOrdinary: nearly nothing of what is no secret is replaced.
func TestOrdinary(t *testing.T) {
	r := redact.New(nil, nil)
	all, replaced := 0, 0
	eachLine(t, "ordinary.txt", "replaced", func(line string, marked bool) {
		was, now := recorded(r, line)
		if all++; now != was {
			replaced++
		}
		if (now != was) != marked {
			t.Errorf("%s becomes %s", line, now)
		}
	})
	if all < 300 || replaced*100 > all {
		t.Errorf("%d of %d are replaced", replaced, all)
	}
}

// TestBase64: bytes in the place of a text, such as the body of a record, are searched.
func TestBase64(t *testing.T) {
	r := redact.New(nil, nil)
	for text, want := range map[string]string{
		"login password=x1234 ok": redact.Mark, "login as ada was successful": "", "\x00\x01\x02password=x12345": "", `{"token":"x1234567"}`: redact.Mark,
	} {
		in := base64.StdEncoding.EncodeToString([]byte(text))
		if want == "" {
			want = in
		}
		if got := r.Text(in); got != want {
			t.Errorf("%q in Base64 becomes %q", text, got)
		}
	}
}
