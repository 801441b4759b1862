package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fairlead-lb/fairlead/internal/controller"
	"github.com/fairlead-lb/fairlead/internal/kube"
	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/plan"
	"github.com/fairlead-lb/fairlead/internal/provider"
)

// errProvider says that a provider ended by itself, after which there is
// nothing to lead for.
var errProvider = errors.New("running a provider")

// dataPath runs the providers over all terms of leadership: what they serve in
// this process goes on while the API server is away, and ends when somebody
// else leads.
type dataPath struct {
	// ctx ends a while after the process was asked to end.
	ctx       context.Context //nolint:containedctx // it is the providers' life, longer than any call
	providers map[string]provider.Provider
	changes   chan model.Key

	// open are the providers that still run, or drain their connections.
	open   sync.WaitGroup
	begin  sync.Once
	led    chan struct{}
	failed chan error
}

// newDataPath returns a data path that ends by stop, or the delay after ctx, so
// that who asks readiness can turn away before anything stops.
func newDataPath(ctx context.Context, delay time.Duration, providers map[string]provider.Provider) (path *dataPath, stop func()) {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	quiet := context.AfterFunc(ctx, func() { time.AfterFunc(delay, cancel) })
	path = &dataPath{
		ctx: later, providers: providers, changes: kube.NewChanges(),
		led: make(chan struct{}), failed: make(chan error, len(providers)),
	}
	return path, func() { quiet(); cancel() }
}

// term runs a controller until the process ends or leadership is lost.
func (d *dataPath) term(ctx context.Context, connect func() (*kube.Client, error), c controller.Config, workers int) error {
	cluster, err := connect()
	if err != nil {
		return err
	}
	c.Reader, c.Writer, c.Ledger, c.Standby = cluster, cluster, cluster, cluster.Standby
	loop := controller.New(c)
	if err := cluster.AddReadyCheck("services", loop.Ready); err != nil {
		return err
	}
	if err := cluster.AddReadyCheck("shutdown", ctx.Err); err != nil {
		return err
	}
	return cluster.Run(d.ctx, kube.Loop{
		Workers: workers, Start: loop.Start, Reconcile: loop.Reconcile,
		Background: []func(context.Context) error{loop.ExpireReservations, d.lead},
		Standby:    d.standBy, Changes: d.changes,
	})
}

// lead starts the providers with the first term, and ends the term with the
// first provider that fails. It does not wait for them: they listen no more
// when the process ends, so the lease must not wait for their last connections.
func (d *dataPath) lead(ctx context.Context) error {
	d.begin.Do(func() {
		close(d.led)
		for _, p := range d.providers {
			d.open.Go(func() {
				if err := p.Run(d.ctx, d.tell); err != nil {
					d.failed <- fmt.Errorf("%w: %s: %w", errProvider, p.Traits().Name, err)
				}
			})
		}
	})
	select {
	case err := <-d.failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

func (d *dataPath) tell(k model.Key) {
	select {
	case d.changes <- k:
	case <-d.ctx.Done():
	}
}

// standBy gives up what this process serves, because another one leads and
// serves it.
func (d *dataPath) standBy(ctx context.Context) error {
	for _, p := range d.providers {
		if !p.Traits().Ephemeral {
			continue
		}
		keys, err := p.List(ctx)
		if err != nil {
			return fmt.Errorf("standing by: %w", err)
		}
		for _, k := range keys {
			have, err := p.Observe(ctx, k)
			if err != nil {
				return fmt.Errorf("standing by: %w", err)
			}
			if _, err := p.Apply(ctx, plan.Remove(k, have)); err != nil {
				return fmt.Errorf("standing by: %w", err)
			}
		}
	}
	return nil
}

// goesOn tells whether a term that ended is to be followed by another one. What
// fails before the first term is a mistake, and is said at once.
func (d *dataPath) goesOn(err error) bool {
	select {
	case <-d.led:
		return err != nil && !errors.Is(err, errProvider) && d.ctx.Err() == nil
	default:
		return false
	}
}

// pause waits between two terms.
func (d *dataPath) pause(long time.Duration) {
	select {
	case <-time.After(long):
	case <-d.ctx.Done():
	}
}
