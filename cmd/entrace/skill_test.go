package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/skills"
)

// TestSkill: the page has at most 1,500 tokens, if a token has at least three bytes. It is not written through a
// symbolic link.
func TestSkill(t *testing.T) {
	expect.Equal(t, fine(t, nil, "skill"), skills.Entrace, "the page")
	if len(skills.Entrace) > 4500 {
		t.Errorf("the page has %d bytes", len(skills.Entrace))
	}
	dir := t.TempDir()
	page := filepath.Join(dir, "a", "entrace", "SKILL.md")
	for range 2 {
		fine(t, nil, "skill", "--install", filepath.Join(dir, "a"))
		expect.Equal(t, string(read(t, page)), skills.Entrace, "the page that is written")
	}
	must(t, os.Remove(page))
	tracetest.Symlink(t, filepath.Join(dir, "other"), page)
	must(t, os.Mkdir(filepath.Join(dir, "b"), 0o700))
	tracetest.Symlink(t, filepath.Join(dir, "a"), filepath.Join(dir, "b", "entrace"))
	for _, to := range []string{"a", "b"} {
		code, _, errs := entrace(t, nil, "skill", "--install", filepath.Join(dir, to))
		expect.Equal(t, code, exitData, "skill follows a link: %s", errs)
	}
}
