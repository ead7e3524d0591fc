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
		short: "Archive the finished traces of a folder as Parquet, by service and day",
		long: `archive writes the finished traces of a folder as Parquet, for DuckDB, ClickHouse and others.

  entrace archive traces --to archive                 a folder
  entrace archive traces --to s3://bucket/traces      S3, or a server that speaks its protocol
  entrace archive traces --to archive --dry-run       only print what would be written

archive writes an object for each service and day (UTC) of a trace: service=NAME/day=2026-11-24/ID-N.parquet.
ID is the SHA-256 of the trace. After the last object of a trace, archive writes _manifest/ID.json, and later
runs skip this trace. If archive is killed, run it again: no data is lost or stored twice. Several archive
commands may write to one TARGET.

archive skips unfinished traces; a later run archives them. It reports damaged traces, and archives the
others. It does not search subfolders of DIR.

For S3, archive reads AWS_ENDPOINT_URL, AWS_REGION and AWS_CA_BUNDLE. It takes credentials from
AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, from AWS_PROFILE and the files of ~/.aws, or from the role of
the machine or container, as other programs do.`,
		args: takes(1, 1),
		flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&o.to, "to", "", "where to write the archive: a folder, or `s3://BUCKET/PREFIX`")
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
