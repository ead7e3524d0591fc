// Package skills has the texts that tell agents how to use entrace.
package skills

import _ "embed"

// Entrace is the skill for the command, in the format of Agent Skills.
//
//go:embed entrace/SKILL.md
var Entrace string
