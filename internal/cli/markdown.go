package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Markdown returns the page about the commands below a root, in the order of
// their names. It says nothing that depends on the machine it is made on.
func Markdown(root *cobra.Command) string {
	var s strings.Builder
	s.WriteString("# Command line\n\n" +
		"<!-- Made from internal/cli by \"go test ./internal/cli -run Markdown -update\"; changes here are lost. -->\n\n" +
		root.Long + "\n\n" +
		"Installed under the name `" + pluginName + "`, the program is a plugin of kubectl: `kubectl fairlead get` is `fairlead get`.\n")
	for _, c := range root.Commands() {
		commandMarkdown(&s, c)
	}
	return s.String()
}

func commandMarkdown(s *strings.Builder, c *cobra.Command) {
	if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
		return
	}
	fmt.Fprintf(s, "\n## %s\n\n%s.\n\n%s\n", c.CommandPath(), c.Short, c.Long)
	if c.Runnable() && !c.HasSubCommands() {
		fmt.Fprintf(s, "\n```\n%s\n```\n", c.UseLine())
	}
	if c.Example != "" {
		fmt.Fprintf(s, "\nExamples:\n\n```\n%s\n```\n", strings.ReplaceAll("\n"+c.Example, "\n  ", "\n")[1:])
	}
	flagsMarkdown(s, c.LocalFlags())
	for _, sub := range c.Commands() {
		commandMarkdown(s, sub)
	}
}

func flagsMarkdown(s *strings.Builder, flags *pflag.FlagSet) {
	rows := ""
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		kind, text := pflag.UnquoteUsage(f)
		if kind != "" {
			name += " " + kind
		}
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" {
			text += " (default: " + f.DefValue + ")"
		}
		rows += fmt.Sprintf("| `%s` | %s |\n", strings.ReplaceAll(name, "|", `\|`), text)
	})
	if rows != "" {
		s.WriteString("\n| Flag | Meaning |\n|---|---|\n" + rows)
	}
}
