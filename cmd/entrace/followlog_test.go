package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

// TestFollowLog follows a log that is renamed, cut, and replaced by another file. No line may be lost.
func TestFollowLog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "app.log")
	add := func(to, message string) {
		t.Helper()
		f, err := os.OpenFile(to, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		must(t, err)
		_, err = f.WriteString("2026-11-29 07:53:15 ERROR " + message + "\n")
		must(t, err)
		must(t, f.Close())
	}
	add(name, "before")
	l, err := followLog(t.Context(), name)
	must(t, err)
	defer l.close()
	var want []string
	waitFor := func(message string) {
		t.Helper()
		want = append(want, message)
		tracetest.Eventually(t, message, func() bool { return slices.Equal(messagesIn(t, l.trace), want) })
	}
	waitFor("before")
	add(name, "added")
	waitFor("added")
	must(t, os.Rename(name, name+".1"))
	add(name+".1", "late")
	waitFor("late")
	add(name, "in the next file")
	waitFor("in the next file")
	must(t, os.Truncate(name, 0))
	add(name, "cut")
	waitFor("cut")
	must(t, os.Remove(name))
	add(name, "in a new file")
	waitFor("in a new file")
}

func messagesIn(t *testing.T, name string) (all []string) {
	t.Helper()
	c, err := convert.Open(t.Context(), []string{name}, nil)
	if err != nil {
		return nil
	}
	defer c.Close()
	for r := range c.View().Rows() {
		if c.View().Role(r) == view.RoleLog {
			text, _ := c.View().Message(r)
			all = append(all, text)
		}
	}
	return all
}
