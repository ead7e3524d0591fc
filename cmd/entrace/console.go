package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/term"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/fit"
	"github.com/entrace-go/entrace/internal/read/show"
)

// A console holds the input and the outputs of a command.
type console struct {
	in       io.Reader
	out, err io.Writer
	color    bool // print colors to out
	started  bool // the command line was understood
	width    int  // columns of out; if 0, ask the terminal

	links  *[]string   // the targets of links in the output; nil if it has none
	args   []string    // the command line
	fitted *fit.Answer // out, if the command has a budget

	exit func(code int) // ends the process
}

// to returns a copy of c that prints to out.
func (c *console) to(out io.Writer) *console {
	own := *c
	own.out = out
	return &own
}

// locked returns a copy of c whose outputs several goroutines may use at once.
func (c *console) locked() *console {
	own := c.to(&lockedWriter{w: c.out})
	own.err = &lockedWriter{w: c.err}
	return own
}

// say prints a line on stderr.
func (c *console) say(text string, args ...any) {
	fmt.Fprintln(c.err, "entrace:", show.Safe(fmt.Sprintf(text, args...)))
}

// tell prints err on stderr, unless err is nil.
func (c *console) tell(err error) {
	if err != nil {
		c.say("%s", err)
	}
}

// tellOf prints err and the path of its file on stderr, unless err is nil.
func (c *console) tellOf(path string, err error) {
	if err != nil {
		c.say("%s: %s", path, err)
	}
}

// sayTry suggests the query text on a line of its own, quoted for a shell.
func (c *console) sayTry(text string) {
	if text != "" {
		c.say("try %s", shellQuoted(text))
	}
}

// printJSON prints v as one JSON object. It escapes characters that would act on a terminal.
func (c *console) printJSON(v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = io.WriteString(c.out, safeJSON(b)+"\n")
	return err
}

// paint returns s with the escape sequences of a color, if c has colors.
func (c *console) paint(color, s string) string {
	if !c.color || s == "" {
		return s
	}
	return "\x1b[" + color + "m" + s + "\x1b[0m"
}

// link returns an escape sequence that only this program understands. It links its line to the number of a row, or to a
// query. The number in the sequence is an index in c.links. link returns "" if the output has no links.
func (c *console) link(to string) string {
	if c.links == nil {
		return ""
	}
	*c.links = append(*c.links, to)
	return fmt.Sprintf("\x1b[?%dm", len(*c.links)-1)
}

func (c *console) level(l format.Level) string { return c.paint(show.LevelColor(l), l.String()) }

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// terminalWidth returns the width of the terminal w in columns, or 0 if w is not a terminal.
func terminalWidth(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			return width
		}
	}
	return 0
}

// A lockedWriter is a writer that several goroutines may use at once.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
