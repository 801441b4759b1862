// Fairlead makes Kubernetes Services of type LoadBalancer work on OpenStack,
// bare metal and one machine. This program only wires: what each command does
// is in internal/.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/fairlead-lb/fairlead/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx)
	stop()
	os.Exit(code)
}

func run(ctx context.Context) int {
	root := cli.New(cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	root.AddCommand(controllerCommand())
	addDemo(root)
	return cli.Execute(ctx, root)
}
