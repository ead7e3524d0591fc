package slogadapter_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

func TestWithReturnsReceiver(t *testing.T) {
	_, h := newHandler(t, nil)
	empty := valuer(func() slog.Value { return slog.GroupValue() })
	for name, got := range map[string]slog.Handler{
		"WithGroup(\"\")":       h.WithGroup(""),
		"WithAttrs(nil)":        h.WithAttrs(nil),
		"WithAttrs of nothing":  h.WithAttrs([]slog.Attr{}),
		"WithAttrs of empties":  h.WithAttrs([]slog.Attr{{}, slog.Group("g")}),
		"WithAttrs of no group": h.WithAttrs([]slog.Attr{slog.Any("g", empty)}),
	} {
		if got != slog.Handler(h) {
			t.Errorf("%s is another handler", name)
		}
	}
}

// TestSiblings derives many handlers concurrently from one handler. Their attributes and groups
// must not mix.
func TestSiblings(t *testing.T) {
	rec, h := newHandler(t, nil)
	// Derive from handlers with lists of different lengths, so that some slices have spare
	// capacity.
	base := slog.New(h)
	var bases []*slog.Logger
	var prefixes []string
	prefix := ""
	for i := range 9 {
		bases, prefixes = append(bases, base), append(prefixes, prefix)
		base = base.With("b"+strconv.Itoa(i), i)
		prefix += fmt.Sprintf("b%d=%d ", i, i)
	}
	var wg sync.WaitGroup
	for i, base := range bases {
		group := base.WithGroup("g").WithGroup("h")
		for j := range 8 {
			wg.Go(func() {
				l := base.With("s", j)
				sub := l.With("t", j)
				grouped := group.WithGroup("i"+strconv.Itoa(j)).With("u", j)
				l.With("t", -1).Debug("makes another one")
				for range 5 {
					l.Info(fmt.Sprintf("%ss=%d", prefixes[i], j))
					sub.Info(fmt.Sprintf("%ss=%d t=%d", prefixes[i], j, j))
					grouped.Info(fmt.Sprintf("%sg.h.i%d.u=%d", prefixes[i], j, j))
					base.Info(fmt.Sprintf("%sz=%d", prefixes[i], j), "z", j)
				}
			})
		}
	}
	wg.Wait()
	all := entries(t, rec)
	expect.Equal(t, len(all), 9*8*5*4, "entries")
	for _, e := range all {
		checkList(t, e, e.Message.Value)
	}
}

// TestWithAttrsSlice checks that WithAttrs neither changes nor retains its slice, because
// slog.MultiHandler passes one slice to several handlers.
func TestWithAttrsSlice(t *testing.T) {
	rec, h := newHandler(t, nil)
	blob := []byte("blob")
	v := valuer(func() slog.Value { return slog.IntValue(1) })
	group := []slog.Attr{slog.Any("y", v), slog.Int("x", 2)}
	attrs := []slog.Attr{slog.Any("c", v), slog.Any("b", blob), {Key: "g", Value: slog.GroupValue(group...)}, {}, slog.Int("a", 3)}
	before := slices.Clone(attrs)
	h2 := h.WithAttrs(attrs)
	same := func(a, b slog.Attr) bool { return a.Key == b.Key && a.Value.Kind() == b.Value.Kind() }
	if !slices.EqualFunc(attrs, before, same) {
		t.Errorf("the slice is %v, and was %v", attrs, before)
	}
	if got := attrs[2].Value.Group()[0].Value.Kind(); got != slog.KindLogValuer {
		t.Errorf("in the group is a %v, want a LogValuer", got)
	}
	copy(blob, "XXXX")
	clear(group)
	clear(attrs)
	must(t, h2.Handle(context.Background(), slog.NewRecord(time.Time{}, slog.LevelInfo, "", 0)))
	checkList(t, entries(t, rec)[0], "c=1 b=blob g.y=1 g.x=2 a=3")
}
