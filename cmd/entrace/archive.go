package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/internal/read/archive"
	"github.com/entrace-go/entrace/internal/read/show"
)

type archiveOptions struct {
	to  string
	dry bool
}

func archiveCommand() *command {
	o := new(archiveOptions)
	return &command{
		use:   "archive DIR --to TARGET",
		short: "Make Parquet of all finished traces of a folder, by service and day",
		long: `archive writes the finished traces of a folder as Parquet, for DuckDB, ClickHouse and others.

  entrace archive traces --to archive                 a folder
  entrace archive traces --to s3://bucket/traces      S3, or a server that speaks its protocol
  entrace archive traces --to archive --dry-run       only print what would be written

Each service and day (UTC) of a trace becomes an object, service=NAME/day=2026-11-24/ID-N.parquet. ID is
the SHA-256 of the trace. When all objects of a trace are written, _manifest/ID.json says so, and the trace
is not archived again. If archive is killed, run it again: nothing is lost, and nothing is there twice.
Several archive commands may write to one TARGET.

Traces that are not finished wait for the next run. A damaged trace is reported, and the others are
archived. Folders in DIR are not searched.

S3 is set up by AWS_ENDPOINT_URL, AWS_REGION, AWS_CA_BUNDLE and credentials as for other programs:
AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE and the files of ~/.aws, or the role of the
machine or container.`,
		args: takes(1, 1),
		flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&o.to, "to", "", "where the archive is: a folder, or `s3://BUCKET/PREFIX`")
			flags.BoolVar(&o.dry, "dry-run", false, "write nothing, and print what would be written")
		},
		run:      o.run,
		complete: cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs),
	}
}

func (o *archiveOptions) run(ctx context.Context, c *console, args []string) error {
	if o.to == "" {
		return usagef("--to is missing: name the folder of the archive, or s3://BUCKET/PREFIX")
	}
	target, err := archive.Open(o.to)
	if err != nil {
		return &usageError{err}
	}
	var traces, objects, before int
	var errs error
	err = archive.Run(ctx, args[0], target, archive.Options{DryRun: o.dry, Report: func(r *archive.Result, err error) {
		switch {
		case err != nil:
			errs = errors.Join(errs, err)
			return
		case r.Left != "":
			c.say("skipped %s: %s", r.File, r.Left)
			return
		case r.Before:
			before++
			return
		}
		traces++
		objects += len(r.Manifest.Objects)
		for _, object := range r.Manifest.Objects {
			_, werr := fmt.Fprintf(c.out, "%s: %s, %s\n", show.Safe(r.File), show.Safe(object.Key), plural(object.Rows, "row"))
			errs = errors.Join(errs, werr)
		}
	}})
	text := "archived"
	if o.dry {
		text = "would archive"
	}
	text += fmt.Sprintf(" %s as %s to %s", plural(traces, "trace"), plural(objects, "object"), show.Safe(o.to))
	if before > 0 {
		text += fmt.Sprintf("; %d archived before", before)
	}
	_, werr := fmt.Fprintln(c.out, text)
	return errors.Join(err, errs, werr)
}
