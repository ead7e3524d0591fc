package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/entrace-go/entrace/format"
)

func (a *app) treeCommand() *cobra.Command {
	var o treeOptions
	c := &cobra.Command{
		Use:   "tree FILE",
		Short: "Print spans and log records as a tree, with durations",
		Long: "tree prints the logical view of FILE, or of the standard input for -: spans with\n" +
			"their durations, events and log records below the span they belong to, in the\n" +
			"order of time. On a terminal a line shows as many attributes as there is room\n" +
			"for. Of a damaged file it prints what is whole and exits with 1.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.tree(cmd.Context(), args[0], o)
		},
	}
	c.Flags().IntVar(&o.depth, "depth", 0, "how many levels to print, 0 for all")
	c.Flags().BoolVar(&o.bare, "no-attributes", false, "print no attributes")
	return fileArgs(c, 1)
}

// maxIndent is how many levels are drawn. What is deeper says how deep it is.
const maxIndent = 40

type treeOptions struct {
	depth int  // 0: all levels
	bare  bool // without attributes
}

func (a *app) tree(ctx context.Context, name string, o treeOptions) error {
	path, done, err := a.seekable(name)
	if err != nil {
		return err
	}
	defer done()
	lock := lockOf(name)
	f, err := a.openTrace(path, &format.OpenOptions{Prefix: true})
	if err != nil {
		return torn(name, err)
	}
	defer f.Close()
	v, err := format.NewView(f)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(a.out, 64<<10)
	title := f.Name()
	if name == "-" {
		title = stdinName
	}
	p := printer{app: a, title: title, v: v, w: w, bare: o.bare, width: terminalWidth(a.out)}
	if p.end, err = endingOf(v); err != nil {
		return err
	}
	p.state = p.end.state(f, lock)
	if f.Len() > 0 {
		final := p.finalChild()
		err = v.Walk(0, func(id uint32, depth int, last bool) error {
			if id%1024 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			if o.depth > 0 && depth > o.depth || depth == 1 && p.end.lossless[id] {
				return format.SkipChildren
			}
			return p.entry(id, depth, last || id == final)
		})
	}
	return errors.Join(err, w.Flush(), torn(name, f.Damage()))
}

// A printer draws one entry after the other.
type printer struct {
	*app

	title string
	end   ending
	state string
	v     *format.View
	w     *bufio.Writer
	bare  bool
	width int                 // of the terminal in columns, 0 for none
	lines [maxIndent + 1]bool // whether a level goes on below
}

// finalChild returns the last child of the root that is shown, 0 if there is none. The
// first line of the tree already says that the trace ended cleanly.
func (p *printer) finalChild() uint32 {
	for _, id := range slices.Backward(p.v.Children(0)) {
		if !p.end.lossless[id] {
			return id
		}
	}
	return 0
}

func (p *printer) entry(id uint32, depth int, last bool) error {
	if id == 0 {
		_, err := fmt.Fprintln(p.w, p.summary())
		return err
	}
	e, err := p.v.Entry(id)
	if err != nil {
		return err
	}
	var b strings.Builder
	for i := 1; i < min(depth, maxIndent); i++ {
		if p.lines[i] {
			b.WriteString("│  ")
		} else {
			b.WriteString("   ")
		}
	}
	if depth <= maxIndent {
		p.lines[depth] = !last
	}
	switch {
	case depth > maxIndent:
		fmt.Fprintf(&b, "⋯%d ", depth)
	case last:
		b.WriteString("└─ ")
	default:
		b.WriteString("├─ ")
	}
	if _, err := p.w.WriteString(p.paint(colorDim, b.String())); err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.w, p.line(id, e, utf8.RuneCountInString(b.String())))
	return err
}

// summary is the line for the root.
func (p *printer) summary() string {
	spans, logs := 0, 0
	for id := range uint32(p.v.Len()) {
		switch p.v.Role(id) {
		case format.RoleSpan:
			spans++
		case format.RoleLog:
			logs++
		}
	}
	return fmt.Sprintf("%s %d spans, %d log records, %d entries, %s",
		p.paint(colorBold, safe(p.title)), spans, logs, p.v.Len(), p.state)
}

// line is what is printed of an entry behind so many columns.
func (p *printer) line(id uint32, e *format.TraceEntry, indent int) string {
	parts := p.head(id, e)
	used := indent
	kept := parts[:0]
	for _, s := range parts {
		if s != "" {
			kept = append(kept, s)
			used += 1 + utf8.RuneCountInString(plain(s))
		}
	}
	if p.bare || p.v.Role(id) == format.RoleResource {
		return strings.Join(kept, " ")
	}
	for i := range e.Attributes {
		at := &e.Attributes[i]
		user, ok := format.UserName(at.Name)
		if !ok || e.Metadata.Name == format.NameEnd && p.v.Role(id) == format.RoleRecorder && isZero(at.Value) {
			continue
		}
		name, value := safe(user)+"=", valueText(at.Value, maxValue)
		used += 1 + utf8.RuneCountInString(name) + utf8.RuneCountInString(value)
		if p.width > 0 && used > p.width {
			kept = append(kept, p.paint(colorDim, "…"))
			break
		}
		kept = append(kept, p.paint(colorDim, name)+value)
	}
	return strings.Join(kept, " ")
}

// head is what is printed of an entry before its attributes; empty parts are not.
func (p *printer) head(id uint32, e *format.TraceEntry) []string {
	var parts []string
	name := safe(e.Metadata.Name)
	switch p.v.Role(id) {
	case format.RoleSpan:
		if e.Metadata.Level == format.LevelError {
			parts = append(parts, p.level(e.Metadata.Level))
		}
		parts = append(parts, p.paint(colorBold, name), p.took(e))
		parts = append(parts, p.attr(e, format.AttrKind), p.attr(e, format.AttrStatusDescription))
		if before, _ := e.Attribute(format.AttrContinued); before.Bool() {
			parts = append(parts, p.paint(colorDim, "began in the file before"))
		}
	case format.RoleLog:
		parts = append(parts, p.logLevel(e), safe(e.Message.Value))
	case format.RoleResource:
		parts = append(parts, p.paint(colorBold, safe(e.Message.Value)), p.paint(colorDim, "resource"))
	case format.RoleEvent:
		if e.Metadata.Level == format.LevelError {
			parts = append(parts, p.level(e.Metadata.Level))
		}
		parts = append(parts, "• "+name)
	case format.RoleLink:
		parts = append(parts, "→ link", p.attr(e, format.AttrLinkTraceID), p.attr(e, format.AttrLinkSpanID))
	default:
		parts = append(parts, p.level(e.Metadata.Level), name)
		if e.Message.Valid {
			parts = append(parts, safe(e.Message.Value))
		}
	}
	return parts
}

// maxValue is how many runes of a value the tree shows.
const maxValue = 80

// isZero reports whether v is the number 0.
func isZero(v format.Value) bool {
	n, ok := v.U64()
	return ok && n == 0
}

// took is how long a span took.
func (p *printer) took(e *format.TraceEntry) string {
	v, ok := e.Attribute(format.AttrDuration)
	if !ok {
		if p.end.rotated {
			return p.paint(colorDim, "goes on in the next file")
		}
		return p.paint(colorYellow, "not ended")
	}
	n, _ := v.U64()
	return p.paint(colorBlue, duration(clampDuration(n)))
}

func (p *printer) attr(e *format.TraceEntry, name string) string {
	if v, ok := e.Attribute(name); ok {
		return p.paint(colorDim, safe(v.Text()))
	}
	return ""
}

// logLevel is a log record's own word for its level.
func (p *printer) logLevel(e *format.TraceEntry) string {
	if v, ok := e.Attribute(format.AttrLogLevel); ok {
		return safe(v.Text())
	}
	return p.level(e.Metadata.Level)
}

// terminalWidth returns the columns of the terminal that w is, or 0.
func terminalWidth(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			return width
		}
	}
	return 0
}

// plain returns s without the colors of paint.
func plain(s string) string {
	for {
		before, after, found := strings.Cut(s, "\x1b[")
		if !found {
			return s
		}
		_, after, _ = strings.Cut(after, "m")
		s = before + after
	}
}
