package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestMarkdownIsFresh(t *testing.T) {
	golden(t, filepath.Join("..", "..", "..", "docs", "cli.md"), Markdown(newRoot(world{}, "fairlead")))
}

// TestCommandsAreDocumented holds every command to a help that helps.
func TestCommandsAreDocumented(t *testing.T) {
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		if c.Short == "" || strings.HasSuffix(c.Short, ".") || c.Long == "" {
			t.Errorf("%s: the short help is no title or the long one is missing", c.CommandPath())
		}
		if !c.HasSubCommands() && !strings.Contains(c.Example, "fairlead "+c.Name()) && !strings.Contains(c.Example, c.CommandPath()) {
			t.Errorf("%s has no example of itself", c.CommandPath())
		}
		if c.Args == nil {
			t.Errorf("%s does not say how many arguments it takes", c.CommandPath())
		}
		for _, line := range strings.Split(c.Long, "\n") {
			if len(line) > 125 {
				t.Errorf("%s: the line %q is too long for a terminal", c.CommandPath(), line)
			}
		}
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	check(newRoot(world{}, "fairlead"))
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := run(t, nil, "", "completion", shell); got.code != ExitOK || !strings.Contains(got.out, "fairlead") {
			t.Errorf("completion %s ended with %d: %s", shell, got.code, got.err)
		}
	}
	if got := run(t, nil, "", "__complete", "explain", "proxy"); !strings.Contains(got.out, "proxy-protocol\n") {
		t.Errorf("options are not completed: %q", got.out)
	}
}
