// Package cli is the commands for people: they read a cluster with the rights
// of who calls them, and say in words what is served, why something is not,
// and what a manifest would change. It decides nothing about load balancing:
// the same pure packages as in the controller do. Of what it reads it writes
// nothing, but for the command release, and it never talks to a backend.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fairlead-lb/fairlead/api/annotation"
	"github.com/fairlead-lb/fairlead/internal/kube"
)

// The exit codes of every command.
const (
	// ExitOK: it was done, or the answer is yes.
	ExitOK = 0
	// ExitFailed: it was not done, or the answer is no.
	ExitFailed = 1
	// ExitUsage: the command line is wrong. By --detailed-exitcode a plan
	// ends with it, too, when there are changes.
	ExitUsage = 2
)

// What people type to run the program.
const (
	programName = "fairlead"
	// pluginName is what kubectl calls the program when it is installed as a plugin.
	pluginName = "kubectl-fairlead"
	// pluginWords is what people type then.
	pluginWords = "kubectl fairlead"
)

// Streams are where a command reads and writes.
type Streams struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
}

// world is everything outside that the commands need.
type world struct {
	Streams
	now  func() time.Time
	open func(kube.UserOptions) (*access, error)
	// program is what people type to run this program.
	program string
}

// New returns the root command with every command for people. Further commands
// may be added to it; Execute runs it. A program whose file is named
// kubectl-fairlead calls itself "kubectl fairlead".
func New(s Streams) *cobra.Command {
	return newRoot(world{Streams: s, now: time.Now, open: openCluster}, filepath.Base(os.Args[0]))
}

// Execute runs a root command made by New with the arguments of this process,
// says on its error stream what went wrong, and returns the exit code.
func Execute(ctx context.Context, root *cobra.Command) int {
	err := root.ExecuteContext(ctx)
	var exit *exitError
	switch {
	case err == nil:
		return ExitOK
	case !errors.As(err, &exit):
		exit = &exitError{ExitFailed, err}
	}
	if exit.cause != nil {
		fmt.Fprintf(root.ErrOrStderr(), "error: %s\n", sentence(err))
	}
	return exit.code
}

// newRoot returns the root command of a program whose file is named file.
func newRoot(w world, file string) *cobra.Command {
	plugin := strings.TrimSuffix(file, ".exe") == pluginName
	if w.program = programName; plugin {
		w.program = pluginWords
	}
	open := w.open
	w.open = func(o kube.UserOptions) (*access, error) {
		a, err := open(o)
		if a != nil {
			a.program = w.program
		}
		return a, err
	}
	root := &cobra.Command{
		Use:   "fairlead",
		Short: "Load balancers for Services of type LoadBalancer",
		Long: "Fairlead makes Services of type LoadBalancer work on OpenStack, on bare metal and on one machine.\n\n" +
			"These commands say what is served, why something is not, and what a manifest would change.\n" +
			"They need no more than the rights of who calls them. Exit codes: 0 done or yes, 1 failed or no, 2 wrong usage.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          knownCommand,
		RunE:          showHelp,
	}
	root.SetIn(w.In)
	root.SetOut(w.Out)
	root.SetErr(w.Err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("%w; see \"%s --help\"", err, cmd.CommandPath())
	})
	root.AddCommand(
		getCommand(w), describeCommand(w), waitCommand(w), planCommand(w), releaseCommand(w),
		addressesCommand(w), explainCommand(w), configCommand(w), versionCommand(w),
	)
	if plugin {
		becomePlugin(root)
	}
	return root
}

// becomePlugin has the help speak of "kubectl fairlead".
func becomePlugin(root *cobra.Command) {
	root.Use = pluginName
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: pluginWords}
	for _, c := range root.Commands() {
		speakAsPlugin(c)
	}
}

func speakAsPlugin(cmd *cobra.Command) {
	for _, before := range []string{"  ", "&& ", "| "} {
		cmd.Example = strings.ReplaceAll(cmd.Example, before+programName+" ", before+pluginWords+" ")
	}
	for _, c := range cmd.Commands() {
		speakAsPlugin(c)
	}
}

// knownCommand refuses an argument of a command that only has commands.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	if near := annotation.Nearest(args[0], names); near != "" {
		return usage("unknown command %q; did you mean %q?", args[0], near)
	}
	return usage("unknown command %q; see \"%s --help\"", args[0], cmd.CommandPath())
}

func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// atMost and noArgs are cobra's checks, as errors of usage.
func atMost(n int) cobra.PositionalArgs { return asUsage(cobra.MaximumNArgs(n)) }
func noArgs() cobra.PositionalArgs      { return asUsage(cobra.ExactArgs(0)) }

func asUsage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usage("%w; see \"%s --help\"", err, cmd.CommandPath())
		}
		return nil
	}
}

// oneOf is a flag that takes one of some words.
type oneOf struct {
	words []string
	value string
}

var _ pflag.Value = (*oneOf)(nil)

func (o *oneOf) String() string { return o.value }
func (o *oneOf) Type() string   { return strings.Join(o.words, "|") }

func (o *oneOf) Set(v string) error {
	for _, w := range o.words {
		if v == w {
			o.value = v
			return nil
		}
	}
	return fmt.Errorf("allowed: %s", strings.Join(o.words, ", "))
}
