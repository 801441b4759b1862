// Command devcluster is a Kubernetes control plane for development and tests
// in one binary that is built from source: "up" runs etcd, the API server and
// the controllers of Services, "kubectl" and "kube-proxy" are those programs.
// It runs no containers and is not for production.
package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // kubectl's ways to log in
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	"k8s.io/component-base/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	kubeproxy "k8s.io/kubernetes/cmd/kube-proxy/app"
)

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "kubectl":
			os.Args = os.Args[1:] // kubectl looks at them by itself, for its plugins
			runKubectl()
			return
		case "kube-proxy":
			os.Args = os.Args[1:]
			os.Exit(cli.Run(kubeproxy.NewProxyCommand()))
		}
	}
	if err := newCommand().Execute(); err != nil {
		fmt.Fprintln(os.Stderr, "devcluster:", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "devcluster",
		Short:         "A Kubernetes control plane for development, in one process",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	cmd.AddCommand(newUpCommand(), &cobra.Command{
		Use:   "version",
		Short: "Print the versions of Kubernetes and Go it was built from",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "Kubernetes %s, built with %s\n", version.Get().GitVersion, runtime.Version())
			return err
		},
	}, &cobra.Command{
		Use:   "kubectl",
		Short: "Run kubectl with the arguments that follow",
		RunE:  reached,
	}, &cobra.Command{
		Use:   "kube-proxy",
		Short: "Run kube-proxy with the arguments that follow",
		RunE:  reached,
	})
	return cmd
}

// reached stands for the programs that main starts before cobra reads a flag;
// they are listed here for the help text.
func reached(cmd *cobra.Command, _ []string) error {
	return fmt.Errorf("%s must be the first argument", cmd.Name())
}

func runKubectl() {
	// The level has to be set before the command is made, which logs already.
	if _, err := logs.GlogSetter(kubectl.GetLogVerbosity(os.Args)); err != nil {
		kubectlutil.CheckErr(err)
	}
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
}
