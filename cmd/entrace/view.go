package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/otel/listener"
	"github.com/entrace-go/entrace/internal/read/readmark"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
	"github.com/entrace-go/entrace/view"
	"github.com/entrace-go/entrace/viewer"
)

type viewOptions struct {
	inputFlags

	listen, editor, state string
	against               []string
	noOpen, once, follow  bool
	mayFollow             bool                   // a file that a program still writes is followed
	runs                  []*runLine             // without names: the recordings to choose from
	changed               func(flag string) bool // reports whether the command line has a flag
}

func viewCommand() *command {
	o := &viewOptions{listen: "127.0.0.1:0"}
	return &command{
		use:   "view [FILE|DIR]...",
		short: "Show a trace in the browser",
		long: `view shows a trace in the browser.

  entrace view                                   a recording of this folder; the viewer lists them if there are several
  entrace view app.et                            if a program still writes it, the viewer follows
  entrace view --follow traces                   a folder, and new files in it
  entrace view after.et --against=before.et      compare two recordings

view serves the web viewer on the loopback interface and opens the browser. Only people who have the printed
address, which includes a token, can see the trace. --listen 0.0.0.0:8080 listens on all interfaces, without
encryption.

With --follow, the viewer shows new rows, waits for files that do not exist yet, and continues with the files of
the next program. If a program still writes a single FILE, view follows it automatically, unless --follow=false.
view ends with ^C or, with --once, five seconds after you close the last page.`,
		flags: func(flags *pflag.FlagSet) {
			o.add(flags)
			flags.StringVar(&o.listen, "listen", o.listen, "the address to listen on")
			flags.BoolVar(&o.noOpen, "no-open", false, "do not open a browser")
			flags.BoolVar(&o.once, "once", false, "end when the last page is closed")
			flags.StringVar(&o.editor, "editor", "", "a `URL` that opens a source file, such as vscode://file{path}:{line}")
			flags.StringVar(&o.state, "state", "", "what the viewer shows first: the part of a copied link that begins with ? and ends before #")
		},
		complete: completeTraces,
		run: func(ctx context.Context, c *console, args []string) error {
			args, err := o.names(c, args)
			if err != nil {
				return err
			}
			if !hasDisplay() && !o.noOpen && !o.changed("listen") && isTerminal(c.out) {
				c.say("there is no display, so view shows the trace in this terminal, as 'entrace ui' does; --no-open serves the web viewer instead")
				return o.inTerminal(ctx, c, args, nil)
			}
			return o.run(ctx, c, args)
		},
	}
}

// add adds the flags of view that ui has as well.
func (o *viewOptions) add(flags *pflag.FlagSet) {
	o.changed = flags.Changed
	o.addFrom(flags)
	o.addClock(flags)
	redactFlag(flags, &o.redact, redactRead)
	flags.StringArrayVar(&o.against, "against", nil, "compare with the trace `FILE`; you can give several")
	flags.BoolVar(&o.follow, "follow", false, "also show rows that programs add to the files from now on")
}

// names returns the names to show. Without arguments, it is the trace of this folder; if there are several, names sets
// o.runs.
func (o *viewOptions) names(c *console, args []string) (_ []string, err error) {
	if len(args) == 0 {
		o.runs, err = tracesIn(".", true)
		if err == nil && len(o.runs) <= 1 {
			args = make([]string, 1)
			args[0], err = newestHere(c)
		}
	}
	o.mayFollow = len(args) <= 1 && o.redact == "" && !o.changed("follow")
	return args, err
}

// onceAfter is how long --once waits for another page after the last page was closed.
const onceAfter = 5 * time.Second

func (o *viewOptions) run(ctx context.Context, c *console, names []string) error {
	if o.state != "" && (!strings.HasPrefix(o.state, "?") || strings.Contains(o.state, "#")) {
		return usagef("--state must be the part of a copied link that begins with ? and ends before #")
	}
	if o.editor != "" {
		if u, err := url.Parse(strings.NewReplacer("{path}", "/x", "{line}", "1").Replace(o.editor)); err != nil || u.Scheme == "" || u.Scheme == "javascript" || u.Scheme == "data" {
			return usagef("--editor is %q: must be a URL with {path} and {line}, such as vscode://file{path}:{line}", o.editor)
		}
	}
	if err := o.check(names); err != nil {
		return err
	}
	l, err := net.Listen("tcp", o.listen)
	if err != nil {
		return err
	}
	addr, _ := l.Addr().(*net.TCPAddr)
	if !listener.Loopback(l.Addr()) {
		c.say("other machines can reach %s; only the token protects the trace, and the token is sent without encryption", l.Addr())
	}
	token := rand.Text()
	host := l.Addr().String()
	hosts := hostsOf(addr, host)
	if addr != nil && addr.IP.IsUnspecified() {
		host = net.JoinHostPort("127.0.0.1", strconv.Itoa(addr.Port))
	}
	// The server listens at once. A request waits until the trace is open, or until view knows that the
	// trace does not exist yet.
	var h atomic.Pointer[viewer.Handler]
	ready := make(chan struct{})
	server := viewServer(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-ready:
		case <-r.Context().Done():
			return
		}
		if h := h.Load(); h != nil {
			h.ServeHTTP(w, r)
		}
	})
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer server.Close()
	address := "http://" + host + "/" + o.state + "#token=" + token
	if _, err := fmt.Fprintln(c.out, "entrace: viewer at "+address); err != nil {
		return err
	}
	remove := func() {}
	defer func() { remove() }()
	show := func(handler *viewer.Handler) {
		if h.Swap(handler) != nil {
			return
		}
		close(ready)
		if !o.noOpen {
			r, err := openBrowser(ctx, address)
			if err != nil {
				c.say("no browser was opened: %s", err)
			}
			remove = r
		}
	}
	options := viewer.Options{
		Authorize: func(r *http.Request) bool {
			given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			return ok && subtle.ConstantTimeCompare([]byte(given), []byte(token)) == 1
		},
		Hosts: hosts, Released: debug.FreeOSMemory, Editor: o.editor,
	}
	if len(names) == 0 {
		name := o.chosen(ctx, options, show)
		if name == "" {
			return nil
		}
		names = []string{name}
		if err := o.check(names); err != nil {
			return err
		}
	}
	t, closeAll, err := o.open(ctx, c, names, &options, func() {
		c.say("%s", options.Waiting)
		show(viewer.New(nil, &options))
	})
	defer closeAll()
	if t == nil {
		return err
	}
	handler := viewer.New(t.now().View(), &options)
	show(handler)
	var gone <-chan time.Time
	idle := handler.Idle()
	if !o.once {
		idle = nil
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-served:
			if errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			return err
		case <-idle:
			gone = time.After(onceAfter)
		case <-gone:
			if handler.Pages() == 0 {
				return nil
			}
			gone = nil
		}
	}
}

// open opens the files and sets the options that depend on them. While it waits for a file, it calls waits once. It
// returns no trace if there is an error, or if ctx is done. The func closeAll is never nil.
func (o *viewOptions) open(ctx context.Context, c *console, names []string, options *viewer.Options, waits func()) (t *shownTrace, closeAll func(), err error) {
	var opened []func()
	closeAll = func() {
		for _, f := range slices.Backward(opened) {
			f()
		}
	}
	options.Waiting, options.Follow, options.Arguments = "waiting for "+strings.Join(names, ", "), o.follow, o.arguments(names)
	o.follows = o.follow
	names = slices.Clone(names)
	for i, name := range names {
		if o.follow && isLog(name, o.from) {
			l, err := followLog(ctx, name)
			if err != nil {
				return nil, closeAll, err
			}
			opened = append(opened, l.close)
			names[i] = l.trace
		}
	}
	t, err = openShown(ctx, c, names, o, waits)
	if t == nil {
		return nil, closeAll, err
	}
	opened = append(opened, t.close)
	if len(o.against) > 0 {
		other, err := open(ctx, c, o.against, &inputFlags{redact: o.redact})
		if err != nil {
			return nil, closeAll, err
		}
		opened = append(opened, func() { _ = other.Close() }) // nothing was written to it
		options.Against, options.AgainstName = other.View(), title(other)
		for _, name := range o.against {
			options.AgainstArguments = append(options.AgainstArguments, "--against", name)
		}
	}
	options.Names = func(file int) string { return t.now().Name(file) }
	options.Notices = func() (all []string) {
		now := t.now()
		if err := now.Damage(); err != nil {
			all = strings.Split(err.Error(), "\n")
		}
		all = append(append(all, now.LeftOut()...), t.notShown()...)
		for _, name := range now.Replaced() {
			all = append(all, name+" was replaced: the viewer shows the old file; run 'entrace view' again to see the new one")
		}
		return all
	}
	options.States = t.states
	options.Save = t.save
	if !o.follow && !slices.Contains(o.clock, "auto") {
		options.Correct = func(ctx context.Context) (*view.View, error) {
			clocks, _, err := o.clocks()
			if err != nil {
				return nil, err
			}
			addLate(clocks, t.now())
			return t.now().Corrected(ctx, clocks)
		}
	}
	hasExecTrace := t.now().View().HasStates()
	for _, f := range convert.Formats() {
		if f.Writes && (f.Format != convert.GoTrace || hasExecTrace) {
			options.Formats = append(options.Formats, viewer.Format{Name: string(f.Format), Extension: f.Extensions[0], Text: f.What})
		}
	}
	if o.follow {
		options.Reopen = t.reopen
	}
	return t, closeAll, nil
}

// check returns an error if the page cannot show the names. It determines whether the page follows.
func (o *viewOptions) check(names []string) error {
	if o.redact != "" && o.follow {
		return usagef("--redact cannot be used with --follow, which would show new entries with their secrets")
	}
	for _, name := range names {
		if f, _, _, err := convert.FormatOf(format.Find(name)); err == nil && f != "" {
			if _, own := f.Own(); o.follow && !own && !isLog(name, o.from) {
				return usagef("view --follow follows only ENTRACE's own formats and logs, but %s is %s", name, f)
			} else if o.mayFollow && own {
				lock, _ := osfile.LockHolder(format.Find(name))
				o.follow = lock == osfile.LockHeld
			}
		}
		// Check before listening: a missing trace needs no address.
		if _, err := os.Stat(format.Find(name)); err != nil && name != "-" && !o.follow { //nolint:gosec // the user's own file
			return known(name, err)
		}
	}
	return nil
}

// chosen lets the user choose one of the recordings on the page, and returns its name.
func (o *viewOptions) chosen(ctx context.Context, options viewer.Options, show func(*viewer.Handler)) (name string) {
	var once sync.Once
	done, end := context.WithCancel(ctx)
	options.Waiting = "a recording must be chosen"
	options.Choose = func(run, against string) {
		is := func(of string) bool {
			return slices.ContainsFunc(o.runs, func(x *runLine) bool { return x.File == of })
		}
		if is(run) && (against == "" || is(against)) {
			once.Do(func() {
				name = run
				if against != "" {
					o.against = []string{against}
				}
				end()
			})
		}
	}
	for _, x := range o.runs {
		x.read(ctx, true)
		options.Runs = append(options.Runs, viewer.Run{Name: x.File, Text: x.summary()})
	}
	show(viewer.New(nil, &options))
	<-done.Done()
	return name
}

// viewServer returns a server with time limits for the head of a request and for idle connections.
func viewServer(handler http.HandlerFunc) *http.Server {
	return &http.Server{ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, Handler: handler}
}

// A shownTrace is the trace that the page shows. With --follow, another trace replaces it when the names lead to
// other files.
type shownTrace struct {
	open    func(ctx context.Context) (*convert.Trace, error)
	say     func(format string, args ...any)
	renamed []*deadtrace.Rotation // for each name

	mu      sync.Mutex
	all     []*convert.Trace // the last trace is shown; a paused page still shows an earlier one
	skipped []string         // messages about files that were never shown
}

// openShown opens the trace. With --follow it waits until the trace exists, and before that calls the func waits
// once. It returns nil if there is an error, or if ctx is done.
func openShown(ctx context.Context, c *console, names []string, o *viewOptions, waits func()) (*shownTrace, error) {
	s := &shownTrace{open: func(ctx context.Context) (*convert.Trace, error) { return open(ctx, c, names, &o.inputFlags) }, say: c.say}
	for _, name := range names {
		s.renamed = append(s.renamed, deadtrace.RotationOf(name))
	}
	for told := false; ; told = true {
		t, err := s.open(ctx)
		if err == nil {
			s.all = append(s.all, t)
			return s, nil
		}
		// The file may exist without its first entry.
		if notYet := errors.Is(err, convert.ErrNoTrace) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, format.ErrTruncated); !o.follow || !notYet {
			return nil, err
		}
		if !told {
			waits()
		}
		if !wait(ctx) {
			return nil, nil //nolint:nilnil // it is interrupted
		}
	}
}

func (s *shownTrace) now() *convert.Trace {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[len(s.all)-1]
}

// notShown returns messages about files that the page has never shown.
func (s *shownTrace) notShown() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.skipped)
}

// reopen opens the files to which the names now refer, and returns their view. The view is nil if the page
// already shows these files.
func (s *shownTrace) reopen(ctx context.Context) (*view.View, error) {
	if !s.now().Outdated() {
		return nil, nil //nolint:nilnil // there is no other one
	}
	t, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	v := s.now().View()
	var shown []readmark.Mark
	for i, f := range v.Files() {
		shown = append(shown, readmark.Of(f, v.Entries(i)))
	}
	var skipped []string
	for _, r := range s.renamed {
		renamed, _ := readmark.After(r.New(), shown...)
		for _, name := range renamed {
			text := fmt.Sprintf("%s is older than the file that the viewer shows now: 'entrace view %s' shows it", name, name)
			s.say("%s", text)
			skipped = append(skipped, text)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all, s.skipped = append(s.all, t), append(s.skipped, skipped...)
	return t.View(), nil
}

// of returns the trace that has the files of v, a view of s.
func (s *shownTrace) of(v *view.View) *convert.Trace {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.all, func(t *convert.Trace) bool { return t.View().Files()[0] == v.Files()[0] })
	return s.all[i]
}

// states returns the states of the files of a view of s.
func (s *shownTrace) states(v *view.View) (all string, files []viewer.State) {
	t := s.of(v)
	var states []convert.State
	for i := range v.Files() {
		state := t.State(v, i)
		states = append(states, state)
		files = append(files, viewer.State{Word: state.Word, Text: state.String(), Reason: state.Reason})
	}
	return stateText(states), files
}

// save writes rows of a view of s in a format.
func (s *shownTrace) save(ctx context.Context, w io.Writer, v *view.View, rows view.Set[view.Row], format string) error {
	part, err := s.of(v).Select(ctx, v, rows.Has)
	if err != nil {
		return err
	}
	return errors.Join(part.Encode(ctx, w, convert.Format(format), nil), part.Close())
}

func (s *shownTrace) close() {
	for _, t := range s.all {
		_ = t.Close() // nothing was written to it
	}
}

// arguments returns the command-line arguments that open the same files in the same way.
func (o *viewOptions) arguments(names []string) []string {
	args := slices.Clone(names)
	for _, flag := range []struct {
		name   string
		values []string
	}{{"--from", []string{o.from}}, {"--max-temp", []string{o.maxTemp}}, {"--redact", []string{o.redact}}, {"--clock", o.clock}} {
		for _, v := range flag.values {
			if v != "" {
				args = append(args, flag.name, v)
			}
		}
	}
	return args
}

// hostsOf returns the Host headers that are valid for a server that listens on an address.
func hostsOf(addr *net.TCPAddr, host string) []string {
	names := []string{"localhost", "127.0.0.1", "::1"}
	port := ""
	if addr != nil {
		port = strconv.Itoa(addr.Port)
		if addr.IP.IsUnspecified() {
			own, _ := net.InterfaceAddrs() // none if they are not known
			for _, a := range own {
				if ip, ok := a.(*net.IPNet); ok {
					names = append(names, ip.IP.String())
				}
			}
			if name, err := os.Hostname(); err == nil {
				names = append(names, name)
			}
		} else {
			names = append(names, addr.IP.String())
		}
	}
	hosts := []string{host}
	for _, name := range names {
		hosts = append(hosts, net.JoinHostPort(name, port))
		if port == "80" { // clients leave this port out
			hosts = append(hosts, strings.TrimSuffix(net.JoinHostPort(name, port), ":80"))
		}
	}
	return hosts
}

// hasDisplay reports whether a browser has a display.
func hasDisplay() bool {
	return runtime.GOOS == "darwin" || runtime.GOOS == "windows" || os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != ""
}

// openBrowser opens address in a browser. Other users can read the arguments of a process, so the address with its
// token is not an argument: the browser opens a temporary file that redirects to the address. The returned
// function removes the file.
func openBrowser(ctx context.Context, address string) (remove func(), err error) {
	remove = func() {}
	var name string
	switch runtime.GOOS {
	case "darwin":
		name = "open"
	case "windows":
		name = "explorer"
	default:
		name = "xdg-open"
		if !hasDisplay() {
			return remove, errors.New("no display: neither DISPLAY nor WAYLAND_DISPLAY is set")
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return remove, err
	}
	dir := ""
	if _, err := os.Stat("/snap/bin"); err == nil && runtime.GOOS == "linux" {
		// A browser from a snap has its own /tmp, and cannot read hidden folders.
		dir, _ = os.UserHomeDir()
	}
	f, err := os.CreateTemp(dir, "entrace-*.html")
	if err != nil {
		return remove, err
	}
	remove = func() { _ = os.Remove(f.Name()) }
	page := `<!doctype html><meta charset="utf-8"><title>entrace</title><meta http-equiv="refresh" content="0;url=` + strings.NewReplacer("&", "&amp;", `"`, "&quot;", "<", "&lt;").Replace(address) + `">`
	_, err = f.WriteString(page)
	err = errors.Join(err, f.Close())
	if err != nil {
		return remove, err
	}
	time.AfterFunc(10*time.Second, remove)
	cmd := exec.CommandContext(context.WithoutCancel(ctx), path, f.Name()) //nolint:gosec // the system's own
	return remove, cmd.Start()
}
