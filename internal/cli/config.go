package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/fairlead-lb/fairlead/api/config"
)

func configCommand(w world) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check a configuration file, or print the reference",
		Long:  "Work with the controller's configuration file, without a cluster.",
		Args:  knownCommand,
		RunE:  showHelp,
	}
	var file string
	check := &cobra.Command{
		Use:     "check (-f FILE | FILE)",
		Short:   "Report every problem of a configuration file",
		Long:    "Report every problem of a configuration file, each with its line and path. \"-\" is the standard input.\nThe exit code is 1 when there is any.",
		Example: "  fairlead config check -f fairlead.yaml\n  kubectl -n fairlead-system get configmap fairlead -o jsonpath='{.data.fairlead\\.yaml}' | fairlead config check -f -",
		Args:    atMost(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 && file == "" {
				file, args = args[0], nil
			}
			if file == "" || len(args) > 0 {
				return usage("name one file: %s config check -f FILE", w.program)
			}
			return checkConfig(w, file)
		},
	}
	check.Flags().StringVarP(&file, "filename", "f", "", "`file` to check; - is the standard input")
	reference := &cobra.Command{
		Use:     "reference",
		Short:   "Print a file with every field at its default",
		Long:    "Print a configuration file with every field at its default, each with its documentation.",
		Example: "  fairlead config reference > fairlead.yaml",
		Args:    noArgs(),
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprint(w.Out, config.Reference())
			return nil
		},
	}
	cmd.AddCommand(check, reference)
	return cmd
}

func checkConfig(w world, file string) error {
	in, err := open(w, file)
	if err != nil {
		return err
	}
	defer in.Close()
	problems := config.Check(in)
	if len(problems) == 0 {
		fmt.Fprintf(w.Out, "✓ %s is a valid configuration\n", nameOf(file))
		return nil
	}
	for _, p := range problems {
		fmt.Fprintf(w.Out, "✗ %s: %s\n", nameOf(file), p)
	}
	fmt.Fprintln(w.Err, count(len(problems), "problem"))
	return said(ExitFailed)
}

// open opens a file, or the standard input when it is named "-".
func open(w world, file string) (io.ReadCloser, error) {
	if file == "-" {
		return io.NopCloser(w.In), nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("opening a file: %w", err)
	}
	return f, nil
}

func nameOf(file string) string {
	if file == "-" {
		return "standard input"
	}
	return file
}
