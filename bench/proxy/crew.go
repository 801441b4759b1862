package main

import (
	"context"
	"errors"
	"sync"
)

// crew runs functions at the same time; the first error ends the context of all.
type crew struct {
	work   sync.WaitGroup
	cancel context.CancelFunc

	mu  sync.Mutex
	err error
}

func newCrew(ctx context.Context) (*crew, context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	return &crew{cancel: cancel}, ctx
}

func (c *crew) run(f func() error) {
	c.work.Go(func() {
		if err := f(); err != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.err = errors.Join(c.err, err)
			c.cancel()
		}
	})
}

// wait returns the errors of all, when all have ended.
func (c *crew) wait() error {
	c.work.Wait()
	c.cancel()
	return c.err
}
