package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

// A fakeScreen is a terminal in memory.
type fakeScreen struct {
	tcell.SimulationScreen

	mu            sync.Mutex
	width, height int // after the next Show
	text          string
	drawn         int
	closed        bool
}

func (s *fakeScreen) Init() error {
	err := s.SimulationScreen.Init()
	s.SimulationScreen.SetSize(s.width, s.height)
	return err
}

// SetSize changes the size of the screen when it is next drawn, because the simulation does not expect a change at
// other times.
func (s *fakeScreen) SetSize(width, height int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.width, s.height = width, height
}

// Show stores the text of the screen.
func (s *fakeScreen) Show() {
	s.SimulationScreen.Show()
	s.mu.Lock()
	if width, height := s.Size(); width != s.width || height != s.height {
		s.SimulationScreen.SetSize(s.width, s.height)
		go s.PostEvent(tcell.NewEventResize(s.width, s.height))
	}
	s.mu.Unlock()
	cells, width, _ := s.GetContents()
	var b strings.Builder
	for i, cell := range cells {
		if i%width == 0 {
			b.WriteByte('\n')
		}
		b.WriteString(string(cell.Runes))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text, s.drawn = b.String(), s.drawn+1
}

func (s *fakeScreen) Fini() {
	s.SimulationScreen.Fini()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

func (s *fakeScreen) now() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text
}

// A terminal runs a ui.
type terminal struct {
	*fakeScreen

	next *fakeScreen // is opened after the user has chosen a run on the first screen
	out  bytes.Buffer
	done chan error
}

// inScreen shows traces on a screen in memory. Its end is reported on done.
func inScreen(t testing.TB, width, height int, o *viewOptions, names ...string) *terminal {
	t.Helper()
	x := &terminal{done: make(chan error, 1)}
	screens := make([]*fakeScreen, 2)
	for i := range screens {
		screens[i] = &fakeScreen{SimulationScreen: tcell.NewSimulationScreen("UTF-8"), width: width, height: height}
	}
	x.fakeScreen, x.next = screens[0], screens[1]
	o.changed = func(string) bool { return false }
	c := &console{in: strings.NewReader(""), out: &x.out, err: new(bytes.Buffer)}
	names, err := o.names(c, names)
	expect.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		x.done <- o.inTerminal(ctx, c, names, func() (tcell.Screen, error) {
			s := screens[0]
			screens = screens[1:]
			return s, nil
		})
	}()
	t.Cleanup(cancel)
	return x
}

// press presses keys, which have the names that uiKeys uses. A word in quotes is typed, with
// blanks for underscores.
func (x *terminal) press(keys ...string) {
	for _, key := range keys {
		if typed, is := strings.CutPrefix(key, `"`); is {
			for _, r := range strings.ReplaceAll(strings.TrimSuffix(typed, `"`), "_", " ") {
				x.InjectKey(tcell.KeyRune, r, 0)
			}
			continue
		}
		if key == "Space" {
			key = " "
		}
		code, r := tcell.KeyRune, []rune(key)[0]
		for k, name := range tcell.KeyNames {
			if name == key {
				code, r = k, 0
			}
		}
		x.InjectKey(code, r, 0)
	}
}

// see waits until a pattern is on the screen, or with !, until it is not.
func (x *terminal) see(t testing.TB, pattern string) {
	t.Helper()
	pattern, not := strings.CutPrefix(pattern, "! ")
	re := regexp.MustCompile(pattern)
	for begun := time.Now(); re.MatchString(x.now()) == !not == false; time.Sleep(5 * time.Millisecond) {
		if time.Since(begun) > 20*time.Second {
			t.Fatalf("waited for %q (not: %v), the screen is:%s", pattern, not, x.now())
		}
	}
}

// TestUI runs the scripts in testdata/ui.txt.
func TestUI(t *testing.T) {
	t.Setenv("TZ", "UTC")
	script, err := os.ReadFile("testdata/ui.txt")
	expect.Must(t, err)
	for text := range strings.SplitSeq(string(script), "\n# ") {
		name, steps, _ := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			var x *terminal
			for line := range strings.SplitSeq(strings.TrimSpace(steps), "\n") {
				verb, rest, _ := strings.Cut(line, " ")
				words := strings.Fields(rest)
				switch verb {
				case "open":
					o, width, height := new(viewOptions), 0, 0
					_, err := fmt.Sscanf(words[0], "%dx%d", &width, &height)
					expect.Must(t, err)
					names := words[1:]
					if other, is := strings.CutPrefix(names[0], "--against="); is {
						o.against, names = []string{other}, names[1:]
					}
					x = inScreen(t, width, height, o, names...)
					x.see(t, `\S`)
				case "press":
					for _, key := range words { // each key acts on the screen that the previous key has made
						x.press(key)
						x.see(t, `\S`)
					}
				case "click":
					var col, row int
					_, err := fmt.Sscanf(rest, "%d %d", &col, &row)
					expect.Must(t, err)
					x.InjectMouse(col, row, tcell.Button1, 0)
					x.InjectMouse(col, row, 0, 0)
				case "drag":
					var from, to, row int
					_, err := fmt.Sscanf(rest, "%d %d %d", &from, &to, &row)
					expect.Must(t, err)
					x.InjectMouse(from, row, tcell.Button1, 0)
					x.InjectMouse(to, row, tcell.Button1, 0)
					x.InjectMouse(to, row, 0, 0)
				case "size":
					var width, height int
					_, err := fmt.Sscanf(rest, "%dx%d", &width, &height)
					expect.Must(t, err)
					x.SetSize(width, height)
				case "see":
					x.see(t, rest)
				default:
					t.Fatalf("unknown step %q", line)
				}
			}
			x.press("q")
			expect.Must(t, <-x.done)
		})
	}
}

// TestUIChoosesARun starts without a name in a folder with two traces. Keys that need a trace do nothing while the user
// chooses one.
func TestUIChoosesARun(t *testing.T) {
	trace, err := os.ReadFile("../../convert/folded/testdata/shop.iet")
	expect.Must(t, err)
	t.Chdir(t.TempDir())
	for _, name := range []string{"one.iet", "two.iet"} {
		expect.Must(t, os.WriteFile(name, trace, 0o600))
	}
	x := inScreen(t, 80, 24, new(viewOptions))
	x.see(t, "one.iet(?s:.*)two.iet|two.iet(?s:.*)one.iet")
	for _, k := range uiKeys() {
		for name := range strings.FieldsSeq(k.names) {
			if name != "q" && name != "Enter" && !strings.HasPrefix(name, "Ctrl") {
				x.press(name)
			}
		}
	}
	x.press("End", "Enter")
	x.fakeScreen = x.next
	x.see(t, "(one|two).iet killed: 11 spans")
	x.press("q")
	expect.Must(t, <-x.done)
}

// TestUIRandomKeys presses 500 random keys on each of many files, intact and damaged. In every case, q ends the program
// and restores the terminal.
func TestUIRandomKeys(t *testing.T) {
	keys := []string{"Enter", "Esc", "Tab", "PgDn", "PgUp", "Home", "End", "Backspace", "Left", "Right"}
	for _, k := range uiKeys() {
		for name := range strings.FieldsSeq(k.names) {
			if name != "q" && name != "p" && !strings.HasPrefix(name, "Ctrl") {
				keys = append(keys, name)
			}
		}
	}
	t.Setenv("EDITOR", "")
	files := []string{"testdata/shop.jsonl", "../../format/testdata/v1.et", "../../format/testdata/v2.iet", "../../convert/folded/testdata/shop.iet", "../../convert/chrome/testdata/timeless.iet", "../../convert/chrome/testdata/empty.iet"}
	for _, pattern := range []string{"testdata/waiting/*", "testdata/incidents/*", filepath.Join(os.Getenv("ENTRACE_SAMPLES"), "cases", "read", "*")} {
		more, err := filepath.Glob(pattern)
		expect.Must(t, err)
		files = append(files, more...)
	}
	whole, err := os.ReadFile("../../format/testdata/v2.iet")
	expect.Must(t, err)
	for _, n := range []int{8, len(whole) / 3, len(whole) - 3} {
		name := filepath.Join(t.TempDir(), fmt.Sprintf("cut%d.iet", n))
		expect.Must(t, os.WriteFile(name, whole[:n], 0o600))
		files = append(files, name)
	}
	shown := 0
	for seed, name := range files {
		if shown == 20 {
			break
		}
		random := rand.New(rand.NewPCG(uint64(seed), 1))
		x := inScreen(t, 20+random.IntN(140), 3+random.IntN(50), new(viewOptions), name)
		for x.now() == "" && len(x.done) == 0 {
			time.Sleep(time.Millisecond)
		}
		for range hosttest.InCI(150, 500) {
			if len(x.done) > 0 { // the file cannot be read
				break
			}
			x.press(keys[random.IntN(len(keys))])
			switch random.IntN(20) {
			case 0:
				x.InjectMouse(random.IntN(100), random.IntN(40), tcell.ButtonMask(random.IntN(2)), 0)
			case 1:
				x.SetSize(1+random.IntN(150), 1+random.IntN(60))
			case 2:
				time.Sleep(time.Duration(random.IntN(5)) * time.Millisecond) // some answers arrive, others are canceled
			}
		}
		if len(x.done) == 0 {
			x.press("Esc", "q", "q")
		}
		select {
		case <-x.done:
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: does not end; the screen is:%s", name, x.now())
		}
		x.mu.Lock()
		if x.drawn > 0 {
			shown++
			if !x.closed {
				t.Errorf("%s: the terminal is not restored", name)
			}
		}
		x.mu.Unlock()
	}
	if shown < 12 {
		t.Errorf("only %d files were shown", shown)
	}
}

// BenchmarkKeys presses keys on the trace that FILE names. It reports how long it takes from a key to the end of the
// drawing of its screen, and the time to the first screen.
func BenchmarkKeys(b *testing.B) {
	name := os.Getenv("FILE")
	if name == "" {
		b.Skip("FILE names no trace")
	}
	begun := time.Now()
	x := inScreen(b, 120, 40, new(viewOptions), name)
	x.see(b, "requests?|rows?")
	first := time.Since(begun)
	keys := []string{"2", "Down", "PgDn", "Right", "Down", "Left", "End", "PgUp", "Home", "w", "0", "]", "b"}
	var took []time.Duration
	drawn := func() int {
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.drawn
	}
	for i := 0; b.Loop(); i++ {
		was, begun := drawn(), time.Now()
		x.press(keys[i%len(keys)])
		for drawn() == was || strings.Contains(x.now(), "computing") {
			time.Sleep(100 * time.Microsecond)
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	at := func(share float64) float64 {
		return float64(took[int(share*float64(len(took)-1))].Microseconds()) / 1000
	}
	b.ReportMetric(at(.5), "p50-ms")
	b.ReportMetric(at(.99), "p99-ms")
	b.ReportMetric(first.Seconds(), "first-s")
	x.press("q")
}
