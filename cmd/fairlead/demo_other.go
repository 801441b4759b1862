//go:build !linux

package main

import "github.com/spf13/cobra"

func addDemo(*cobra.Command) {}
