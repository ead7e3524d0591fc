package main

import (
	"bytes"
	"maps"
	"strings"
	"testing"
)

func TestCodeIsCountedWithoutCommentsAndBlankLines(t *testing.T) {
	lines, wording := look([]byte("package p\n\n// A T is what there is.\n// It is plain.\nvar t = `a\n\nb` // x\n\n/* more\nof it */\nvar e = errors.New(\"a name is wanted\")\n"))
	if lines != 5 || wording != 2 {
		t.Errorf("%d lines of code and %d odd sentences, want 5 and 2", lines, wording)
	}
}

func TestUpwardCountsWhatNoOrderAvoids(t *testing.T) {
	names := func(pairs string) map[[2]string]bool {
		found := make(map[[2]string]bool)
		for pair := range strings.FieldsSeq(pairs) {
			found[[2]string{pair[:1], pair[1:]}] = true
		}
		return found
	}
	for pairs, want := range map[string]int{
		"":               0,
		"ba cb dc da":    0,
		"ab ba":          1,
		"ab bc ca":       1,
		"ab ba cd dc bc": 2,
	} {
		if got := upward(names(pairs)); got != want {
			t.Errorf("of %q %d go up, want %d", pairs, got, want)
		}
	}
}

func TestGrowthIsRefused(t *testing.T) {
	text := []byte(strings.Join(append([]string{"package"}, columns[:]...), " ") + "\nview 10 1 1 10 1 0 0 # because\nformat 5 1 1 5 1 0 0\n")
	allowed, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if allowed["view"].reason != "because" {
		t.Errorf("the reason is %q", allowed["view"].reason)
	}
	again, err := parse(printed(allowed))
	if err != nil || !bytes.Equal(printed(again), printed(allowed)) {
		t.Errorf("what is printed reads as %v, %v", again, err)
	}
	now := maps.Clone(allowed)
	if errs := larger(now, allowed); len(errs) > 0 {
		t.Errorf("the same is refused: %v", errs)
	}
	now["view"], now["query"] = &row{numbers: allowed["view"].numbers}, &row{}
	now["view"].numbers[0]++
	errs := larger(now, allowed)
	if len(errs) != 2 || !strings.Contains(errs[0].Error(), "query is new") || !strings.Contains(errs[1].Error(), "view: code is 11, and may be 10") {
		t.Errorf("errors are %v", errs)
	}
}
