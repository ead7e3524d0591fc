package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/skills"
)

func skillCommand() *command {
	dir := ""
	return &command{
		use:   "skill",
		short: "Print instructions for agents that use entrace",
		long: `skill prints a page that tells an agent how to find a cause with entrace, in the format of Agent Skills.

  entrace skill                              print it
  entrace skill --install .claude/skills     write .claude/skills/entrace/SKILL.md, for all users to read

docs/agents.md says how often a reader of this page finds the cause.`,
		args: cobra.NoArgs,
		flags: func(flags *pflag.FlagSet) {
			flags.StringVar(&dir, "install", "", "write the page to entrace/SKILL.md in this `DIR`; an older page is replaced")
		},
		run: func(_ context.Context, c *console, _ []string) error {
			if dir == "" {
				_, err := io.WriteString(c.out, skills.Entrace)
				return err
			}
			return installSkill(dir)
		},
	}
}

// installSkill writes the skill into a folder. It follows no symbolic link that leaves the folder.
func installSkill(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { // #nosec G301 -- the page is no secret
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	err = root.MkdirAll("entrace", 0o755)
	return errors.Join(err, root.WriteFile("entrace/SKILL.md", []byte(skills.Entrace), 0o644))
}
