//go:build man

package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// With the build tag man, the program only writes its man pages into the folder that its argument names.
func init() {
	root := rootCommand(new(console))
	root.DisableAutoGenTag = true
	for _, c := range append([]*cobra.Command{root}, root.Commands()...) {
		c.Long = strings.ReplaceAll(c.Long, "\n  ", "\n      ") // indent examples for Markdown
	}
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "entrace", Manual: "entrace"}, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
