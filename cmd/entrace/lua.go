package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/internal/text/quantity"
	"github.com/entrace-go/entrace/query/lua"
	"github.com/entrace-go/entrace/recorder"
)

type luaOptions struct {
	inputFlags

	json      bool
	threads   int
	maxMemory string
	timeout   time.Duration
}

func luaCommand() *command {
	o := &luaOptions{threads: 1, maxMemory: "1GiB"}
	return &command{
		use:   "lua SCRIPT FILE",
		short: "Run a Lua script of ENTRACE's on a trace",
		long: `lua runs a script that was written for ENTRACE's viewer.

  entrace lua errors.lua app.et
  entrace lua --threads 4 count.lua app.et
  entrace lua --max-memory 1GiB count.lua app.et

SCRIPT calls functions en_… on the entries of FILE as they are stored. lua prints what the script prints. If
the script returns a list of ids or a filterset, lua prints the ids, one a line:

  return en_filter("meta.level", "EQ", 4, en_filterset_universe())     -- errors

docs/lua.md has the functions.`,
		flags: func(flags *pflag.FlagSet) {
			o.addFrom(flags)
			flags.BoolVar(&o.json, "json", false, "print the ids as a JSON list")
			flags.IntVar(&o.threads, "threads", o.threads, "run the script on this many parts of the file at once")
			flags.DurationVar(&o.timeout, "timeout", 0, "how long the script may run, 0 for as long as it takes")
			flags.StringVar(&o.maxMemory, "max-memory", o.maxMemory, "about how much memory the script may use")
		},
		newest: true,
		before: 1,
		run:    o.run,
	}
}

func (o *luaOptions) run(ctx context.Context, c *console, args []string) error {
	script, name := args[0], args[1]
	if o.threads < 1 || o.threads > 256 {
		return usagef("--threads is %d: must be from 1 to 256", o.threads)
	}
	memory, err := quantity.ParseBytes(o.maxMemory)
	if err != nil || memory <= 0 {
		return usagef("--max-memory is %q: must be a size such as 1GiB", o.maxMemory)
	}
	if script == "-" && name == "-" {
		return usagef("the standard input cannot be both the script and the file")
	}
	text, err := readScript(c.in, script)
	if err != nil {
		return err
	}
	f, opened, damage, err := openEntries(ctx, c, name, o)
	if err != nil {
		return err
	}
	defer opened.Close()
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("the script ran longer than --timeout %s", o.timeout))
		defer cancel()
	}
	w := bufio.NewWriterSize(c.out, 64<<10)
	out := io.Writer(w)
	if isTerminal(c.out) {
		out = terminalWriter{w}
	}
	// A call in a script, such as matching a pattern, can last forever and ignores ctx.
	over := make(chan struct{})
	defer close(over)
	defer context.AfterFunc(ctx, func() {
		select {
		case <-over:
		case <-time.After(graceTime):
			if errors.Is(ctx.Err(), context.Canceled) {
				c.say("interrupted")
				c.exit(exitInterrupted)
				return
			}
			c.say("%s", context.Cause(ctx))
			c.exit(exitData)
		}
	})()
	r, err := lua.Run(ctx, f, script, text, &lua.Options{Output: out, Threads: o.threads, MaxMemory: memory})
	if err != nil {
		return errors.Join(w.Flush(), err)
	}
	if r.Any && o.json {
		b, _ := json.Marshal(append([]uint32{}, r.IDs...)) // [] if there are none
		_, err = w.Write(append(b, '\n'))
	} else if r.Any {
		var b []byte
		for _, id := range r.IDs {
			b = append(strconv.AppendUint(b[:0], uint64(id), 10), '\n')
			_, err = w.Write(b)
			if err != nil {
				break
			}
		}
	}
	return errors.Join(err, w.Flush(), damage)
}

// graceTime is how long a script may go on after ctx is done. Then the process exits.
const graceTime = time.Second

func readScript(in io.Reader, name string) (string, error) {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return "", err
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, lua.MaxScript+1)) // Run returns an error for a longer script
	return string(b), err
}

// openEntries opens a file of any format for a script. The caller closes opened. The first error is damage in the
// file: the script still gets the entries that are whole. The second error says why the file cannot be opened.
func openEntries(ctx context.Context, c *console, name string, o *luaOptions) (f *format.File, opened io.Closer, damage, err error) {
	if own, err := inPlace(name, o.from); err != nil {
		return nil, nil, nil, err
	} else if !own {
		t, err := open(ctx, c, []string{name}, &o.inputFlags)
		if err != nil {
			return nil, nil, nil, err
		}
		return t.View().Files()[0], t, t.Damage(), nil
	}
	f, err = recorder.Open(name, &format.OpenOptions{Lenient: true})
	if err != nil {
		return nil, nil, nil, known(name, torn(name, err))
	}
	n, missing := f.Journal()
	tellJournal(c, f.Name(), n, missing)
	return f, f, torn(name, f.Damage()), nil
}

// A terminalWriter escapes characters that would act on a terminal.
type terminalWriter struct{ w io.Writer }

func (t terminalWriter) Write(b []byte) (int, error) {
	var out strings.Builder
	for line := range strings.Lines(string(b)) {
		for i, part := range strings.Split(strings.TrimSuffix(line, "\n"), "\t") {
			if i > 0 {
				out.WriteByte('\t')
			}
			out.WriteString(show.Safe(part))
		}
		if strings.HasSuffix(line, "\n") {
			out.WriteByte('\n')
		}
	}
	_, err := io.WriteString(t.w, out.String())
	return len(b), err
}
