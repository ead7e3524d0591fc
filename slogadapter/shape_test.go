package slogadapter_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/slogadapter"
)

type randomError struct{ n int }

func (e *randomError) Error() string {
	if e.n%7 == 0 {
		panic("no text")
	}
	return fmt.Sprint("error ", e.n)
}

// randomAttr returns an attribute of any kind, plain ones mostly.
func randomAttr(r *rand.Rand, key string) slog.Attr {
	texts := []string{"", "a", "text", "grüße", "\xff", strings.Repeat("long ", 60), strings.Repeat("x", 250), strings.Repeat("x", 251), strings.Repeat("é", 125)}
	switch r.IntN(16) {
	case 0, 1, 2:
		return slog.String(key, texts[r.IntN(len(texts))])
	case 3, 4:
		return slog.Int64(key, int64(r.Uint64()>>r.IntN(64)))
	case 5:
		return slog.Int64(key, -int64(r.Uint64()>>(1+r.IntN(63))))
	case 6:
		return slog.Uint64(key, r.Uint64()>>r.IntN(64))
	case 7:
		return slog.Float64(key, r.NormFloat64())
	case 8:
		return slog.Bool(key, r.IntN(2) == 0)
	case 9:
		return slog.Duration(key, time.Duration(r.Int64()))
	case 10:
		return slog.Time(key, time.Unix(r.Int64N(4e9), r.Int64N(1e9)))
	case 11:
		return slog.Any(key, io.EOF)
	case 12:
		return slog.Any(key, &randomError{r.IntN(100)})
	case 13:
		return slog.Any(key, nil)
	case 14:
		return slog.Any(key, []any{nil, errors.New("x"), map[string]int{"a": 1}, []byte{1}, (*randomError)(nil)}[r.IntN(5)])
	}
	return slog.Group(key, slog.Int("in", 1))
}

// TestQuickIsSlow records random records twice: with a handler that has seen the
// call sites and shapes before, and with a fresh one that has not. What is in the
// files must be the same.
func TestQuickIsSlow(t *testing.T) {
	if !slogadapter.KnowsRecordLayout() {
		t.Error("slog.Record has changed: records are copied now")
	}
	t.Run("in place", quickIsSlow)
	t.Run("copied", func(t *testing.T) {
		defer slogadapter.ForgetRecordLayout()()
		quickIsSlow(t)
	})
}

func quickIsSlow(t *testing.T) {
	keys := []string{"a", "b", "status", "trace_id", "otel.x", "", "ключ", "k\xff", "a.b", "a name that is longer than what is copied in two moves", "c", "d"}
	for _, version := range []format.Version{format.V1, format.V2} {
		r := rand.New(rand.NewPCG(1, uint64(version)))
		var records []slog.Record
		var with [][]slog.Attr
		var groups []string
		for range 600 {
			rec := slog.NewRecord(time.Unix(r.Int64N(4e9), r.Int64N(1e9)), slog.Level(r.IntN(4)*4+r.IntN(3)/2), "message", []uintptr{0, pc()}[r.IntN(2)])
			if r.IntN(20) == 0 {
				rec.Time = time.Time{}
			}
			shape := rand.New(rand.NewPCG(uint64(r.IntN(12)), 2)) // a dozen sets of keys
			for range shape.IntN(7) {
				rec.AddAttrs(randomAttr(r, keys[shape.IntN(len(keys))]))
			}
			records = append(records, rec)
			var w []slog.Attr
			for range shape.IntN(3) {
				w = append(w, randomAttr(rand.New(rand.NewPCG(uint64(shape.IntN(3)), 3)), keys[shape.IntN(len(keys))]))
			}
			with = append(with, w)
			groups = append(groups, []string{"", "", "g"}[shape.IntN(3)])
		}
		o := &slogadapter.Options{Level: slog.Level(-100), MaxAttrs: 9, MaxBytes: 900}
		rec := newRecorder(t, &format.RecorderOptions{Version: version})
		known := slogadapter.New(rec, o)
		log := func(h slog.Handler, i int) {
			if err := h.WithAttrs(with[i]).WithGroup(groups[i]).Handle(context.Background(), records[i].Clone()); err != nil {
				t.Fatal(err)
			}
		}
		for i := range records { // learn
			log(known, i)
		}
		for i := range records {
			log(known, i)
		}
		if err := rec.Flush(); err != nil {
			t.Fatal(err)
		}
		for i := range records {
			log(slogadapter.New(rec, o), i)
			if err := rec.Flush(); err != nil { // one after the other, whatever their times
				t.Fatal(err)
			}
		}
		all := entries(t, rec)
		byText := make(map[string]int)
		for i, e := range all {
			text := list(e) + fmt.Sprint(e.Metadata, e.Message)
			if i >= 2*len(records) {
				byText[text] -= 2
			} else {
				byText[text]++
			}
		}
		for text, n := range byText {
			if n != 0 {
				t.Errorf("version %d: %d more of them than there should be: %s", version, n, text)
			}
		}
	}
}

// TestKeysWithNUL: the keys of two loggers that would be the same if they were
// joined with a zero byte.
func TestKeysWithNUL(t *testing.T) {
	for _, version := range []format.Version{format.V1, format.V2} {
		rec := newRecorder(t, &format.RecorderOptions{Version: version})
		h := slogadapter.New(rec, nil)
		one, two := h.WithAttrs([]slog.Attr{slog.Int("a\x00b", 1)}), h.WithAttrs([]slog.Attr{slog.Int("a", 1), slog.Int("b", 2)})
		for i := range 6 {
			r := slog.NewRecord(time.Unix(int64(i+1), 0), slog.LevelInfo, "", 0)
			r.AddAttrs(slog.Int("n", 3))
			if err := []slog.Handler{one, two}[i/3].Handle(context.Background(), r); err != nil {
				t.Fatal(err)
			}
		}
		for i, e := range entries(t, rec) {
			if want := []string{"a\x00b=1 n=3", "a=1 b=2 n=3"}[i/3]; list(e) != want {
				t.Errorf("version %d: record %d is %q, want %q", version, i, list(e), want)
			}
		}
	}
}

// TestFarZones: times of zones that no clock has are texts, all the same.
func TestFarZones(t *testing.T) {
	rec := newRecorder(t, nil)
	h := slogadapter.New(rec, nil)
	for _, offset := range []int{100 * 3600, -5000 * 3600, 1<<31 - 1} {
		at := time.Unix(1_800_000_000, 5).In(time.FixedZone("far", offset))
		for range 3 {
			r := slog.NewRecord(time.Unix(1, 0), slog.LevelInfo, "", 0)
			r.AddAttrs(slog.Time("at", at))
			if err := h.Handle(context.Background(), r); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, e := range entries(t, rec) {
		if v, _ := e.Attribute("at"); v.Kind() != format.KindString {
			t.Errorf("record %d has a %v, %q", i, v.Kind(), v.Bytes())
		}
	}
}

// TestNamesCount: names are part of the bytes that a record may have, whether its
// shape is known or not.
func TestNamesCount(t *testing.T) {
	key := strings.Repeat("k", 300)
	for _, known := range []bool{false, true} {
		rec := newRecorder(t, nil)
		h := slogadapter.New(rec, &slogadapter.Options{MaxBytes: 400})
		log := func(value string) {
			r := slog.NewRecord(time.Unix(1, 0), slog.LevelInfo, "", 0)
			r.AddAttrs(slog.String(key, value))
			if err := h.Handle(context.Background(), r); err != nil {
				t.Fatal(err)
			}
		}
		if known {
			log("")
		}
		log(strings.Repeat("v", 340))
		all := entries(t, rec)
		if !truncated(all[len(all)-1]) {
			t.Errorf("known %v: the record is whole", known)
		}
	}
}
