// Command build builds the development cluster ahead of its first use, or finds
// it in the cache, and prints the path of the binary. Progress goes to standard
// error.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/fairlead-lb/fairlead/internal/devcluster"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	path, err := devcluster.Build(ctx, devcluster.Options{Out: os.Stderr})
	if err != nil {
		return err
	}
	_, err = fmt.Println(path)
	return err
}
