package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

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

// TestFollowLogThroughLink follows a log that a symbolic link names, as in a container's folder of logs. Each line is
// recorded once.
func TestFollowLogThroughLink(t *testing.T) {
	dir := t.TempDir()
	name, link := filepath.Join(dir, "0.log"), filepath.Join(dir, "app.log")
	f, err := os.Create(name)
	must(t, err)
	defer f.Close()
	_, err = f.WriteString("2026-11-29 07:53:15 ERROR before\n")
	must(t, err)
	if err := os.Symlink(name, link); err != nil {
		t.Skip(err)
	}
	l, err := followLog(t.Context(), link)
	must(t, err)
	defer l.close()
	time.Sleep(200 * time.Millisecond) // several looks at the file
	_, err = f.WriteString("2026-11-29 07:53:16 ERROR added\n")
	must(t, err)
	tracetest.Eventually(t, "added", func() bool { return slices.Contains(messagesIn(t, l.trace), "added") })
	if got := messagesIn(t, l.trace); !slices.Equal(got, []string{"before", "added"}) {
		t.Errorf("recorded %q", got)
	}
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
