package main

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/entrace-go/entrace/format"
)

// recovery is what 'entrace recover --json' prints.
type recovery struct {
	File       string           `json:"file"`
	Output     string           `json:"output"`
	Broken     string           `json:"broken,omitempty"`
	Version    format.Version   `json:"version"`
	Format     string           `json:"format"`
	Entries    int              `json:"entries"`
	Bytes      int64            `json:"bytes"`
	ValidBytes int64            `json:"valid_bytes"`
	Discarded  int64            `json:"discarded_bytes"`
	Cut        format.CutReason `json:"cut"`
	CutOffset  int64            `json:"cut_offset"`
	Damage     string           `json:"damage,omitempty"`
	Ended      bool             `json:"ended"`
	Pending    int              `json:"from_crash_buffer"` // entries that were not in the file
}

func (a *app) recoverCommand() *cobra.Command {
	var output string
	var asJSON bool
	c := &cobra.Command{
		Use:   "recover FILE",
		Short: "Save what is whole of the trace of a program that died",
		Long: "recover brings in what the crash buffer beside FILE still holds, then keeps the\n" +
			"entries up to where it is damaged, and says where and\n" +
			"why that is. It finishes FILE in place: what was to become app.et becomes that,\n" +
			"an x.iet is cut. A corrupt original is kept as FILE.broken. With -o it leaves\n" +
			"FILE alone and writes OUT, an IET if it is called x.iet and else an ET.",
		RunE: func(_ *cobra.Command, args []string) error {
			return a.recover(args[0], output, asJSON)
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "", "write `OUT` instead of changing FILE")
	c.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return fileArgs(c, 1)
}

func (a *app) recover(name, output string, asJSON bool) error {
	if name == "-" && output == "" {
		return usagef("of the standard input, -o must say where to")
	}
	path, done, err := a.seekable(name)
	if err != nil {
		return err
	}
	defer done()
	r, err := format.Recover(path, output)
	if errors.Is(err, fs.ErrExist) && output != "" {
		return thereAlready(output)
	}
	if err != nil {
		return err
	}
	if name == "-" {
		r.Name = stdinName
	}
	v := recovery{
		File: r.Name, Output: r.Output, Broken: r.Broken, Version: r.Version, Format: r.Format.String(), Entries: r.Entries,
		Bytes: r.Size, ValidBytes: r.GoodBytes, Discarded: r.Size - r.GoodBytes, Cut: r.Reason, CutOffset: r.GoodBytes, Ended: r.Ended, Pending: r.Pending,
	}
	if r.Damage != nil {
		v.Damage = r.Damage.Error()
	}
	if asJSON {
		err = a.printJSON(v)
	} else {
		err = a.printRecovery(&v)
	}
	if err == nil && r.Reason == format.CutCorrupt {
		err = errQuiet
	}
	return err
}

func (a *app) printRecovery(v *recovery) error {
	_, err := fmt.Fprintf(a.out, "%s: %d whole entries, %d bytes\n", safe(v.Output), v.Entries, v.ValidBytes)
	if v.Pending > 0 {
		_, e := fmt.Fprintf(a.out, "%s: %d of them came from the crash buffer\n", safe(v.Output), v.Pending)
		err = errors.Join(err, e)
	}
	if v.Cut != format.CutClean {
		_, e := fmt.Fprintf(a.out, "%s: cut at offset %d, %d bytes discarded (%s): %s\n",
			safe(v.File), v.CutOffset, v.Discarded, v.Cut, safe(v.Damage))
		err = errors.Join(err, e)
	}
	if v.Broken != "" {
		_, e := fmt.Fprintf(a.out, "%s: the original\n", safe(v.Broken))
		err = errors.Join(err, e)
	}
	return err
}
