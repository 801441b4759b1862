//go:build linux

package demo

import (
	"github.com/spf13/cobra"
)

// options are the flags of "fairlead demo".
type options struct {
	once bool
	dir  string
	keep bool
}

// Command returns "fairlead demo". It has to be part of the program that has
// the commands "plan", "wait", "describe", "addresses" and "controller", which it
// runs as child processes of the same executable.
func Command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show Fairlead on this machine: a real API server and Services that answer",
		Long: `Start a Kubernetes API server and Fairlead's controller on this machine, and
show with the commands that you would type what becomes of a few Services of
type LoadBalancer. Then it keeps running, for manifests of your own, until
Ctrl-C.

It needs Linux, the go command and a checkout of Fairlead to run in; no root, no
containers and no other cluster. The first time, the API server is built from
source, which takes minutes; it is kept in your cache folder.

Small HTTP servers stand in for pods. They listen at an address of this machine
that is not loopback, because Kubernetes refuses loopback addresses as endpoints;
whoever can reach that address can call them while the demo runs.`,
		Example: `  # Show everything, then stay for manifests of your own
  fairlead demo

  # Show everything and end; the exit code tells whether all was as promised
  fairlead demo --once`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SilenceUsage = true // from here on an error is not about the flags
			return show(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&o.once, "once", false, "end after the last step instead of waiting for Ctrl-C")
	cmd.Flags().StringVar(&o.dir, "dir", "", "empty or new `folder` for everything the demo writes; without one, a temporary folder")
	cmd.Flags().BoolVar(&o.keep, "keep", false, "leave the folder behind; after a failure it always stays")
	return cmd
}
