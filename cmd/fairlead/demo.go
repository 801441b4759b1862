//go:build linux

package main

import (
	"github.com/spf13/cobra"

	"github.com/fairlead-lb/fairlead/internal/demo"
)

// addDemo adds the demonstration, which needs Linux: it binds any address of
// 127.0.0.0/8 and starts a development cluster.
func addDemo(root *cobra.Command) { root.AddCommand(demo.Command()) }
