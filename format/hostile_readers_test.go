package format

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

// Damaged damages traces of every kind as a line of testdata/damage.txt says. It returns the result of each way to read
// the traces. The results must be the same for all damages of the line.
func Damaged(t *testing.T, line string) string {
	all := parseDamages(line)
	want := all[0].said(t, true)
	for _, d := range all[1:] {
		if testing.Short() {
			break
		}
		expect.Equal(t, d.said(t, false), want, "%q, unlike %q", d, all[0])
	}
	return want
}

// said returns the results of reading damaged traces, with a paragraph for each set of trace kinds that have the same
// results. If thorough is true, it also makes the slow checks of any file and of the files that Recover makes.
func (d damage) said(t *testing.T, thorough bool) string {
	var texts []string
	kinds := make(map[string][]string) // by text
	for _, sf := range hostileFormats {
		for _, v := range hostileVersions {
			x := d.apply(v, sf)
			if x == nil {
				continue
			}
			text := x.said(t, thorough)
			if t.Failed() {
				t.Fatalf("%q in %v v%d", d, sf, v)
			}
			if kinds[text] == nil {
				texts = append(texts, text)
			}
			kinds[text] = append(kinds[text], fmt.Sprintf("%v v%d", sf, v))
		}
	}
	if texts == nil {
		t.Errorf("no trace has the fields of %q", d)
	}
	var out strings.Builder
	for _, text := range texts {
		names := strings.Join(kinds[text], ", ")
		for _, sf := range hostileFormats {
			names = strings.ReplaceAll(names, fmt.Sprintf("%v v1, %v v2", sf, sf), sf.String())
		}
		out.WriteString("  " + names + "\n" + text)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// said returns the result of each way to read x, with a line for each set of ways that have the same result. A number
// after a way is the number of entries that this way returns.
func (x *damaged) said(t *testing.T, thorough bool) string {
	dir := filepath.Join(hosttest.MemoryDir(t), "x")
	must(t, os.Mkdir(dir, 0o700))
	defer os.RemoveAll(dir)
	x.name = writeFile(t, filepath.Join(dir, "x."+x.Format.String()), x.b)
	var texts []string
	ways := make(map[string][]string) // by text
	try := func(way string, read func() (kept, said string)) {
		var kept, text string
		wantBounded(t, way, len(x.b), func() { kept, text = read() })
		if ways[text] == nil {
			texts = append(texts, text)
		}
		ways[text] = append(ways[text], strings.TrimSuffix(way+" "+kept, " "))
	}
	if x.entry >= 0 {
		try("an entry alone", func() (kept, said string) {
			base := x.bodies[x.entry]
			return "", x.explain(expect.Err(DecodeTraceEntry(x.raws[x.entry].b, x.Version, new(TraceEntry))), base)
		})
	}
	try("Reader", func() (kept, said string) {
		raws, err := drain(x.b)
		if len(x.b) < 1<<12 {
			slow, serr := drainReader(iotest.OneByteReader(bytes.NewReader(x.b)), nil)
			at, _ := errorOffset(err)
			sat, _ := errorOffset(serr)
			if diff := sameStrings(slow, raws); diff != "" || CutReasonOf(serr) != CutReasonOf(err) || sat != at {
				t.Errorf("byte by byte: %s, %v, want %v", diff, serr, err)
			}
		}
		return x.kept(raws), x.explain(err, 0)
	})
	try("Follow", func() (kept, said string) {
		raws, err := followed(x.name)
		return x.kept(raws), x.explain(err, 0)
	})
	open := func(way string, lenient bool, read func(f *File) (kept, said string)) {
		try(way, func() (kept, said string) {
			f, err := Open(x.name, &OpenOptions{Lenient: lenient})
			if err != nil {
				return "", x.explain(err, 0)
			}
			defer f.Close()
			return read(f)
		})
	}
	open("Open", false, x.file)
	open("lenient Open", true, x.file)
	try("Recover", func() (kept, said string) {
		r, err := Inspect(x.name)
		if err != nil {
			return "", x.explain(err, 0)
		}
		if r.Entries > 0 {
			expect.Equal(t, int(r.GoodBytes), x.ends[r.Entries-1], "bytes of %d entries", r.Entries)
		}
		return strconv.Itoa(r.Entries), x.explain(r.Damage, 0)
	})
	open("Verify", true, func(f *File) (kept, said string) {
		var found []string
		expect.Is(t, f.Verify(func(problem error) { found = append(found, x.explain(problem, 0)) }), nil, "Verify")
		return "", cmp.Or(strings.Join(found, "; "), "no error")
	})
	var out strings.Builder
	for _, text := range texts {
		fmt.Fprintf(&out, "    %s: %s\n", strings.Join(ways[text], ", "), text)
	}
	if thorough {
		x.recover(t, dir)
		checkAnyFile(t, x.name, x.b)
	}
	return out.String()
}

// recover checks that Recover keeps the entries that Inspect counts, or gives the same error.
func (x *damaged) recover(t *testing.T, dir string) {
	t.Helper()
	r, err := Inspect(x.name)
	for _, out := range []string{"out.et", "out.iet", ""} {
		if out == "out.iet" && x.Format != IET {
			continue // only an IET cannot end with entries of zeros
		}
		if out != "" {
			out = filepath.Join(dir, out)
		}
		if err == nil {
			wantRecovered(t, x.name, out, x.rawStrings()[:r.Entries])
		} else {
			expect.Equal(t, x.explain(expect.Err(Recover(x.name, out)), 0), x.explain(err, 0), "Recover")
		}
		if now, rerr := os.ReadFile(x.name); (out != "" || err != nil) && string(now) != string(x.b) {
			t.Errorf("Recover changed the file that it reads: %v", rerr)
		}
	}
	must(t, os.WriteFile(x.name, x.b, 0o600))
}

// wantBounded fails the test if f allocates more memory than it may for a hostile file of fileSize bytes. The
// limit leaves room for several buffers, because some code reads the file more than once.
func wantBounded(t *testing.T, what string, fileSize int, f func()) {
	t.Helper()
	if got, limit := allocated(f), uint64(4*fileSize+3<<19); got > limit {
		t.Errorf("%s allocates %d bytes for a file of %d, want at most %d", what, got, fileSize, limit)
	}
}

// wantRecovered recovers the file name, checks the result, and checks that a second Recover changes nothing. For a
// damaged ET or a corrupt file, the result must have one more entry, which reports the damage.
func wantRecovered(t *testing.T, name, out string, want []string) {
	t.Helper()
	where := out
	if out == "" {
		where = name
	}
	was, ierr := Inspect(name)
	accepted := problems(t, name)
	r, err := Recover(name, out)
	b, rerr := os.ReadFile(where)
	if err := errors.Join(ierr, err, rerr); err != nil {
		t.Errorf("Recover(%q): %v", filepath.Base(out), err)
		return
	}
	raws, err := drain(b)
	all := len(raws)
	if (was.Format == ET && was.Damage != nil || was.Reason == mapping.CutCorrupt) && len(want) > 0 {
		all--
		if !strings.Contains(raws[all], mapping.NameRecovered) || !strings.Contains(raws[all], was.Reason) {
			t.Errorf("Recover(%q): the last entry is %q", filepath.Base(out), raws[all])
		}
		raws = raws[:all]
		all++
	}
	if diff := sameStrings(raws, want); diff != "" || err != nil || r.Entries != len(want) {
		t.Errorf("Recover(%q): %s, %v; report %+v, want %d entries", filepath.Base(out), diff, err, r, len(want))
	}
	if was.Damage != nil {
		accepted = accepted[1:]
	}
	if found := problems(t, where); len(want) > 0 && len(found) > len(accepted) {
		t.Errorf("Verify of what Recover(%q) made finds %q", filepath.Base(out), found)
	}
	again, err := Recover(where, "")
	if err != nil || again.Reason != mapping.CutClean || again.Entries != all {
		t.Errorf("Recover again: %+v, %v, want %d entries, clean", again, err, all)
	}
	if now, err := os.ReadFile(where); err != nil || !bytes.Equal(now, b) {
		t.Errorf("Recover again changed the file: %v", err)
	}
}

// followed reads a file with Follow until it has no further entry.
func followed(name string) (raws []string, err error) {
	f, err := Follow(name, &FollowOptions{Poll: time.Hour})
	if err != nil {
		return nil, err
	}
	defer f.Close()
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // Next returns entries that are in the file, but does not wait
	for {
		if _, _, err := f.Next(ctx); err != nil {
			if errors.Is(err, io.EOF) && !errors.Is(err, ErrTruncated) {
				err = nil
			}
			return raws, err
		}
		raws = append(raws, string(f.Raw()))
	}
}

// kept returns the number of entries, and says so if they are not the first ones of x.
func (x *damaged) kept(raws []string) string {
	if want := x.rawStrings(); len(raws) > len(want) || sameStrings(raws, want[:len(raws)]) != "" {
		return fmt.Sprint(len(raws), " other")
	}
	return strconv.Itoa(len(raws))
}

// file reads all entries of f. It returns how many it can read, and the errors of the others.
func (x *damaged) file(f *File) (kept, said string) {
	var raws, unread []string
	for id := range uint32(f.Len()) {
		raw, err := f.appendRaw(nil, id)
		raws = append(raws, string(raw))
		if err == nil {
			_, err = f.Entry(id)
		}
		if err == nil {
			continue
		}
		text := x.explain(err, 0)
		if _, _, aerr := f.Attribute(id, "h"); fmt.Sprint(aerr) != fmt.Sprint(err) {
			text += " (its attribute h: " + x.explain(aerr, 0) + ")"
		}
		unread = append(unread, text)
	}
	if len(unread) == 0 {
		return x.kept(raws), x.explain(f.Damage(), 0)
	}
	return fmt.Sprint(len(raws)-len(unread), " of ", x.kept(raws)), strings.Join(unread, "; ")
}

var (
	atOffset = regexp.MustCompile(`at offset (\d+)`)
	length   = regexp.MustCompile(`length (\d+), but there is room for at most (\d+)`)
)

// explain returns the text of err. It names the places that an error gives as numbers, so that errors in files of
// different kinds have the same text. The offsets in err are relative to base.
func (x *damaged) explain(err error, base int) string {
	switch {
	case err == nil:
		return "no error"
	case errors.Is(err, context.Canceled):
		return "waits for more"
	}
	text := err.Error()
	if _, after, ok := strings.Cut(text, x.name+": "); ok {
		text = after
	}
	at := base
	text = atOffset.ReplaceAllStringFunc(text, func(s string) string {
		at = base + atoi(s[len("at offset "):])
		return x.place(at)
	})
	if x.field != "" {
		text = strings.Replace(text, ": "+x.field+": ", ": this field: ", 1)
	}
	set := strconv.FormatUint(x.set, 10)
	text = length.ReplaceAllStringFunc(text, func(s string) string {
		m := length.FindStringSubmatch(s)
		if m[1] == set {
			m[1] = "N"
		}
		n, _ := strconv.ParseUint(m[2], 10, 64)
		return "length " + m[1] + " is more than the rest of " + x.rest(at, n)
	})
	if rest, ok := strings.CutSuffix(text, ": "+set); ok {
		text = rest + ": N"
	}
	if errors.Is(err, ErrTruncated) {
		return "torn, " + text
	}
	if _, ok := errors.AsType[*CorruptError](err); ok {
		return "corrupt, " + text
	}
	return text
}

// place names an offset.
func (x *damaged) place(offset int) string {
	switch {
	case offset == x.here:
		return "here"
	case offset == len(x.b):
		return "at the end"
	case slices.Contains(x.starts, offset):
		return fmt.Sprint("where ", slices.Index(x.starts, offset), " begins")
	case slices.Contains(x.bodies, offset):
		return fmt.Sprint("behind the length of ", slices.Index(x.bodies, offset))
	case offset == x.next:
		return "behind it"
	case offset > x.next && x.next > 0:
		return fmt.Sprintf("at %d bytes behind it", offset-x.next)
	}
	return fmt.Sprint("at offset ", offset)
}

// rest names the part of the file that would be complete with n bytes after the offset at of an error, or after x.next.
func (x *damaged) rest(at int, n uint64) string {
	id := slices.IndexFunc(x.ends, func(end int) bool { return end > at })
	for _, from := range []int{at, x.next} {
		switch end := uint64(from) + n; {
		case n == DefaultMaxEntrySize, id >= 0 && end == DefaultMaxEntrySize+uint64(x.bodies[id]):
			return "64 MiB"
		case id >= 0 && end == uint64(x.ends[id]):
			return "the entry"
		case end == uint64(len(x.b)):
			return "the file"
		case end == math.MaxInt:
			return "the largest file"
		}
	}
	return fmt.Sprint(n, " bytes")
}
