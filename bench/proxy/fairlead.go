//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"syscall"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/proxy"
)

// fairleadSpec is what the process with Fairlead's proxy is told.
type fairleadSpec struct {
	Front   netip.AddrPort
	Members []netip.AddrPort
	Threads int
	// Profile is where a CPU profile of the process's life goes; empty: none.
	Profile string
}

// serveFairlead runs the data plane until SIGTERM, with the time-outs that its
// peers have.
func serveFairlead(ctx context.Context, spec fairleadSpec) (err error) {
	runtime.GOMAXPROCS(spec.Threads)
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	if spec.Profile != "" {
		file, err := os.Create(spec.Profile)
		if err != nil {
			return fmt.Errorf("profiling: %w", err)
		}
		if err := pprof.StartCPUProfile(file); err != nil {
			return errors.Join(fmt.Errorf("profiling: %w", err), file.Close())
		}
		defer func() {
			pprof.StopCPUProfile()
			_ = file.Close()
		}()
	}
	p := proxy.New(proxy.Config{ShutdownGrace: -1})
	pool := model.Pool{Algorithm: model.RoundRobin}
	for _, m := range spec.Members {
		pool.Members = append(pool.Members, model.Member{Address: m, Weight: 1})
	}
	listeners := []model.Listener{
		{Port: model.Port{Protocol: model.TCP, Number: spec.Front.Port()}, Pool: pool},
		{Port: model.Port{Protocol: model.UDP, Number: spec.Front.Port()}, Pool: pool},
	}
	key := model.Key{Namespace: "bench", Name: "proxy"}
	for _, e := range p.Set(key, "1", []netip.Addr{spec.Front.Addr()}, listeners) {
		return fmt.Errorf("serving %s: %s", e.Port, e.Message)
	}
	return p.Run(ctx, func(model.Key) {})
}
