//go:build linux

// Command proxy measures the data plane beside HAProxy, nginx and no proxy at
// all: throughput, connections and requests per second, latency, processor
// time, UDP datagrams and memory per idle connection. Everything that is
// compared is measured in turn within each round, with a load generator and a
// backend in processes of their own; the figures are ratios of one round, and
// their median over the rounds is printed as RESULT lines with its spread. It
// judges nothing, and never measures two proxies at once.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"time"
)

// settings are the flags of a run.
type settings struct {
	rounds  int
	threads int
	window  time.Duration
	idle    int
	nice    int
	profile string
	only    string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := dispatch(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// dispatch runs the benchmark, or one of the processes that it starts of itself:
// then the arguments are the process's name and its specification as JSON.
func dispatch(ctx context.Context, args []string) error {
	if len(args) == 2 {
		switch args[0] {
		case "load":
			return child(ctx, args[1], generate)
		case "backend":
			return child(ctx, args[1], serveBackend)
		case "fairlead":
			return child(ctx, args[1], serveFairlead)
		}
	}
	s, err := parse(args)
	if err != nil {
		return err
	}
	return run(ctx, s)
}

func child[T any](ctx context.Context, text string, do func(context.Context, T) error) error {
	var spec T
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return fmt.Errorf("reading the specification of a process: %w", err)
	}
	return do(ctx, spec)
}

func parse(args []string) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("proxy", flag.ContinueOnError)
	flags.IntVar(&s.rounds, "rounds", 5, "how often everything is measured")
	flags.IntVar(&s.threads, "threads", runtime.NumCPU(), "threads or workers of each proxy")
	flags.DurationVar(&s.window, "window", time.Second, "how long each load lasts")
	flags.IntVar(&s.idle, "idle", 4000, "how many idle connections are opened")
	flags.IntVar(&s.nice, "nice", 0, "nice value of the measured processes; below zero needs root")
	flags.StringVar(&s.profile, "profile", "", "file for a CPU profile of Fairlead in the last round; with -only, under one load")
	flags.StringVar(&s.only, "only", "", "measure this load alone")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if s.rounds < 1 || s.threads < 1 || s.idle < 1 || s.window <= 0 || flags.NArg() > 0 {
		return s, errors.New("reading the flags: rounds, threads, window and idle are above zero, and nothing follows the flags")
	}
	return s, nil
}

func run(ctx context.Context, s settings) (err error) {
	dir, err := os.MkdirTemp("", "fairlead-bench-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b := &bench{settings: s, dir: dir}
	if err := b.startBackend(ctx); err != nil {
		return err
	}
	defer b.backend.kill()
	subjects := b.subjects()
	for round := range s.rounds {
		for i := range subjects {
			// Nobody is always the first after the others' closed connections.
			subject := subjects[(i+round)%len(subjects)]
			fmt.Fprintf(os.Stderr, "bench: round %d of %d, %s\n", round+1, s.rounds, subject.name)
			f, err := b.measure(ctx, subject)
			if err != nil {
				return fmt.Errorf("measuring %s: %w", subject.name, err)
			}
			b.record(subject.name, f)
		}
	}
	b.report(os.Stdout)
	return nil
}
