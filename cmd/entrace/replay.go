package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/internal/otel/replay"
	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/view"
)

// replayFlags are the flags of replay.
type replayFlags struct {
	rowFlags

	endpoint, shift, ids, speed string
	headers                     []string
	dry                         bool
}

func replayCommand() *command {
	o := &replayFlags{rowFlags: rowFlags{time: timeLocal}}
	return &command{
		use:   "replay FILE|DIR...",
		short: "Send traces by OTLP to another system",
		long: `replay sends a trace to a Collector, Jaeger, Tempo or another system that takes OTLP over HTTP.

  entrace replay app.et --endpoint http://localhost:4318
  entrace replay traces/ -q '{ status = error }' --descendants
  entrace replay app.et --shift now --new-ids                    as if it happened now

replay reads OTEL_EXPORTER_OTLP_ENDPOINT, _HEADERS, _TIMEOUT, _COMPRESSION, _CERTIFICATE, _CLIENT_CERTIFICATE
and _CLIENT_KEY, each also with _TRACES or _LOGS after OTLP, as SDKs do; flags take precedence. It compresses
its requests of up to 512 spans or log records in 4 MiB. If the other side is busy or unreachable for a while,
replay sends a request again.

Exit status: 0 the endpoint accepted everything, 1 it refused something, 2 wrong usage
or an unreachable endpoint.`,
		args: someArgs,
		flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&o.endpoint, "endpoint", "", "the `URL` that takes OTLP, http://localhost:4318 by default")
			flags.StringVar(&o.shift, "shift", "none", "change all times: none, an offset such as +2h, or `now`, which moves the end of all files to now")
			flags.StringVar(&o.ids, "new-ids", "", "give traces and spans new ids; the same `KEY` gives the same ids")
			flags.Lookup("new-ids").NoOptDefVal = madeKey
			flags.StringVar(&o.speed, "speed", "max", "`max`, or a factor: 1x is as fast as recorded")
			flags.StringArrayVar(&o.headers, "header", nil, "send a header, as `NAME=VALUE`")
			flags.BoolVar(&o.dry, "dry-run", false, "send nothing, and print what would be sent")
			o.addDescendants(flags)
			o.add(flags)
			redactFlag(flags, &o.redact, redactRead)
		},
		run: o.run,
	}
}

// madeKey is the value of --new-ids without a key: replay then makes a random key.
const madeKey = "random"

func (f *replayFlags) run(ctx context.Context, c *console, names []string) error {
	target, err := replay.NewTarget(f.endpoint, f.headers)
	if err != nil {
		return &usageError{err}
	}
	o := &replay.Options{Target: target, DryRun: f.dry}
	o.Speed, err = f.pace()
	if err != nil {
		return err
	}
	o.Shift, err = f.fixedShift()
	if err != nil {
		return err
	}
	whole := func(*view.View) {}
	if f.shift == "now" {
		now := time.Now()
		whole = func(v *view.View) {
			if last, ok := replay.LastEnd(v); ok {
				o.Shift = now.Sub(time.Unix(0, last))
			}
		}
	}
	switch f.ids {
	case "":
	case madeKey:
		b := make([]byte, 8)
		_, _ = rand.Read(b) // Read never fails
		key := hex.EncodeToString(b)
		c.say("the new ids are made with the key %s; --new-ids=%s gives other files the same ids", key, key)
		o.Key = []byte(key)
	default:
		o.Key = []byte(f.ids)
	}
	t, err := openPart(ctx, c, names, &f.rowFlags, whole)
	if err != nil {
		return err
	}
	defer t.Close()
	bar := c.progress()
	bar.rows = true
	defer bar.done()
	o.Progress = bar.update
	result, err := replay.Run(ctx, t.View(), o)
	bar.done()
	if err == nil || result.Requests > 0 {
		err = errors.Join(err, printReplay(c, result, f.dry, target))
	}
	return errors.Join(err, t.Damage())
}

// printReplay prints how many records were sent. Records that the endpoint refused are an error.
func printReplay(c *console, r *replay.Result, dry bool, target *replay.Target) error {
	verb := "sent"
	if dry {
		verb = "would send"
	}
	fmt.Fprintf(c.out, "%s %s and %s in %s of %d bytes to %s\n", verb, plural(int(r.Spans), "span"),
		plural(int(r.Logs), "log record"), plural(int(r.Requests), "request"), r.Bytes, show.Safe(target.String()))
	if r.First != 0 {
		const layout = "2006-01-02T15:04:05.000Z"
		fmt.Fprintf(c.out, "from %s to %s\n", time.Unix(0, r.First).UTC().Format(layout), time.Unix(0, r.Last).UTC().Format(layout))
	}
	for _, text := range r.Messages {
		c.say("the endpoint says: %s", text)
	}
	if r.Refused() > 0 {
		return fmt.Errorf("the endpoint refused %s and %s", plural(int(r.RefusedSpans), "span"), plural(int(r.RefusedLogs), "log record"))
	}
	return nil
}

// pace returns the value of --speed, or 0 for max.
func (f *replayFlags) pace() (float64, error) {
	if f.speed == "max" {
		return 0, nil
	}
	number, ok := strings.CutSuffix(f.speed, "x")
	n, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(n >= 1e-6 && n <= 1e6) {
		return 0, usagef("--speed is %q: must be max or a factor such as 1x", f.speed)
	}
	return n, nil
}

// fixedShift returns the value of --shift if it does not depend on the trace, and 0 otherwise.
func (f *replayFlags) fixedShift() (time.Duration, error) {
	if f.shift == "now" || f.shift == "none" {
		return 0, nil
	}
	d, err := time.ParseDuration(f.shift)
	if err != nil {
		return 0, usagef("--shift is %q: must be none, now or an offset such as +2h", f.shift)
	}
	return d, nil
}
