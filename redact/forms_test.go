package redact_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/redact"
)

// eachLine calls fn for each line of a file in testdata, except comments. If mark is in front of
// the line, marked is true, and fn gets the line without mark.
func eachLine(t *testing.T, name, mark string, fn func(line string, marked bool)) {
	t.Helper()
	b := tracetest.ReadFile(t, "testdata/"+name)
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSuffix(line, "\n")
		if line[0] != '#' {
			line, marked := strings.CutPrefix(line, mark+" ")
			fn(line, marked)
		}
	}
}

// recorded returns the value in a line before and after redaction. The line has the form KEY§VALUE,
// or is a text.
func recorded(r *redact.Redactor, line string) (was, now string) {
	key, value, isAttribute := strings.Cut(line, "§")
	if !isAttribute {
		return line, r.Text(line)
	}
	return value, r.Value(r.Key(key), key, value)
}

var breaks = strings.NewReplacer("⏎", "\n", "⇥", "\t")

// TestForms: at least 95 % of the forms in which programs print secrets are recognized. No ordinary key counts as a
// secret.
func TestForms(t *testing.T) {
	r := redact.New(nil, nil)
	all, found, left := 0, 0, 0
	var eaten []string
	eachLine(t, "forms.txt", "missed", func(line string, missed bool) {
		if keys, isLeft := strings.CutPrefix(line, "left "); isLeft {
			for key := range strings.FieldsSeq(keys) {
				left++
				if r.Key(key) != redact.Search {
					eaten = append(eaten, key)
				}
			}
			return
		}
		_, now := recorded(r, breaks.Replace(filled(line)))
		is := !strings.Contains(now, filled("{14}"))
		all++
		if is {
			found++
		}
		if is == missed {
			t.Errorf("found %v: %s", is, line)
		}
	})
	if all < 400 || found*100 < all*95 || left < 200 || len(eaten) > 0 {
		t.Errorf("%d of %d are found; of %d keys, these count as secrets: %q", found, all, left, eaten)
	}
}

// TestOrdinary: hardly any value without a secret is changed.
func TestOrdinary(t *testing.T) {
	r := redact.New(nil, nil)
	all, replaced := 0, 0
	eachLine(t, "ordinary.txt", "replaced", func(line string, marked bool) {
		was, now := recorded(r, breaks.Replace(line))
		all++
		if now != was {
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

// TestBase64: a text that is Base64, as the bytes of a record's body are, is decoded and searched.
func TestBase64(t *testing.T) {
	r := redact.New(nil, nil)
	for text, want := range map[string]string{
		"login password=x1234 ok": redact.Mark, "login as ada was successful": "", "\x00\x01\x02password=x12345": "", `{"token":"x1234567"}`: redact.Mark,
	} {
		in := base64.StdEncoding.EncodeToString([]byte(text))
		if want == "" {
			want = in
		}
		expect.Equal(t, r.Text(in), want, "%q in Base64 becomes", text)
	}
}
