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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	path, err := devcluster.Build(ctx, devcluster.Options{Out: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(path)
}
