package control

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/entrace-go/entrace/format"
)

// keeps reports whether a trace that has ended is kept. If the trace cannot be read, it returns true and the error.
func (c *Control) keeps(t *Trace) (bool, error) {
	k := t.tc.KeepIf
	if k == nil {
		return true, nil
	}
	if err := t.rec.Flush(context.Background()); err != nil {
		return true, err
	}
	longest, met, err := k.check(t.rec.StreamPath())
	if err != nil {
		return true, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.limitOf(t.tc)
	class, n := k.oneIn(longest, met)
	if l.ended == nil {
		l.ended = make(map[int]int)
	}
	l.ended[class]++
	return n > 0 && (l.ended[class]-1)%n == 0, nil
}

// oneIn returns the class of a trace, and a number n: one in n traces of this class is kept, or no trace if n is 0.
// The parameter met says whether the trace has the attributes in Any and All.
func (k *KeepIf) oneIn(longest time.Duration, met bool) (class, n int) {
	if !met {
		return -1, k.Else
	}
	if len(k.Longest) == 0 {
		return 0, 1
	}
	best := -1
	for i, l := range k.Longest {
		if longest > l.LongerThan && (best < 0 || l.LongerThan > k.Longest[best].LongerThan) {
			best = i
		}
	}
	if best < 0 {
		return -1, k.Else
	}
	return best, max(1, k.Longest[best].OneIn)
}

// check reads the trace in the file called name. It returns the duration of the longest span, and whether the trace
// has the attributes in Any and All.
func (k *KeepIf) check(name string) (longest time.Duration, met bool, err error) {
	found := make(map[string]map[string]bool) // by name of attribute: for each value, whether the trace has it
	for _, s := range slices.Concat(k.Any, k.All) {
		name, value, _ := strings.Cut(s, "=")
		if found[name] == nil {
			found[name] = make(map[string]bool)
		}
		found[name][value] = false
	}
	f, err := format.Open(name, nil)
	if err != nil {
		return 0, false, err
	}
	defer f.Close()
	err = f.Walk(0, func(_ uint32, e *format.TraceEntry) error {
		if _, span := e.Attribute(format.AttrSpanID); span {
			d, _ := e.Attribute(format.AttrDuration)
			if n, ok := d.I64(); ok {
				longest = max(longest, time.Duration(n))
			}
		}
		for name, values := range found {
			v, ok := e.Attribute(name)
			if !ok {
				continue
			}
			text := v.String()
			if v.Kind() == format.KindBytes {
				text = v.Text()
			}
			if _, asked := values[text]; asked {
				values[strings.Clone(text)] = true // text aliases memory of the file, so clone it
			}
		}
		return nil
	})
	has := func(s string) bool {
		name, value, _ := strings.Cut(s, "=")
		return found[name][value]
	}
	met = (len(k.Any) == 0 || slices.ContainsFunc(k.Any, has)) && !slices.ContainsFunc(k.All, func(s string) bool { return !has(s) })
	return longest, met && err == nil, err
}
