package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/gdamore/tcell/v2"
)

// A screen is a terminal on which texts with colors are drawn.
type screen struct{ tcell.Screen }

// put draws a text in at most width columns, and fills the rest of them with spaces. The text may have the escape
// sequences of paint and link, and no others. Without them it has the style base.
func (s screen) put(x, y, width int, text string, base tcell.Style) {
	style, end := base, x+width
	for text != "" && x < end {
		if codes, is := strings.CutPrefix(text, "\x1b["); is {
			codes, text, _ = strings.Cut(codes, "m")
			style = styleOf(style, base, codes)
			continue
		}
		rest, columns := s.Put(x, y, text, style)
		if columns == 0 || x+columns > end { // nothing is left, or half of a wide character
			break
		}
		text, x = rest, x+columns
	}
	for ; x < end; x++ {
		s.Put(x, y, " ", base)
	}
}

// styleOf returns a style after an escape sequence with the given codes.
func styleOf(style, base tcell.Style, codes string) tcell.Style {
	list := strings.Split(codes, ";")
	for i := 0; i < len(list); i++ {
		n, _ := strconv.Atoi(list[i]) // 0 in the sequence of a link, whose style nobody sees
		_, _, on := style.Decompose()
		switch {
		case n == 1:
			style = style.Bold(true)
		case n == 2:
			style = style.Dim(true)
		case n == 7:
			style = style.Reverse(on&tcell.AttrReverse == 0)
		case n >= 30 && n < 38:
			style = style.Foreground(tcell.PaletteColor(n - 30))
		case n == 38 || n == 48: // 38;5;N
			color, _ := strconv.Atoi(list[min(i+2, len(list)-1)])
			i += 2
			if n == 38 {
				style = style.Foreground(tcell.PaletteColor(color))
			} else {
				style = style.Background(tcell.PaletteColor(color))
			}
		default:
			style = base
		}
	}
	return style
}

// eighths are blocks whose left part is full, in steps of an eighth.
var eighths = []rune(" ▏▎▍▌▋▊▉█")

// bar returns a bar from one time to another in a chart whose columns show the times in [first, last). Its ends are
// exact to an eighth of a column. A column in which an unfinished span was open is hatched.
func bar(columns int, first, last, from, to int64, color string, open bool) string {
	at := func(t int64) int {
		share := (float64(t) - float64(first)) / max(1, float64(last)-float64(first))
		return int(min(1, max(0, share)) * 8 * float64(columns))
	}
	a := min(at(from), 8*columns-1)
	b := max(a+1, at(to))
	cells := slices.Repeat([]string{" "}, columns)
	for i := a / 8; i < columns && 8*i < b; i++ {
		left, right := max(0, a-8*i), min(8, b-8*i)
		switch {
		case open:
			cells[i] = "▒"
		case left == 0:
			cells[i] = string(eighths[right])
		case right == 8: // draw the empty part over the full part
			cells[i] = "\x1b[7m" + string(eighths[left]) + "\x1b[0;" + color + "m"
		default:
			cells[i] = string(eighths[right-left])
		}
	}
	return "\x1b[" + color + "m" + strings.Join(cells, "") + "\x1b[0m"
}

// spark returns numbers as a line of small bars.
func spark[N int | uint32](numbers []N) string {
	most := max(1, slices.Max(append(slices.Clone(numbers), 0)))
	line := make([]rune, len(numbers))
	for i, n := range numbers {
		line[i] = ' '
		if n > 0 {
			line[i] = '▁' + rune(7*n/most)
		}
	}
	return string(line)
}
