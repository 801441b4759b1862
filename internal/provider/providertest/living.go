package providertest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/plan"
)

// living is the part of the contract on Run and on callers at the same time.
func living() []Sentence {
	return []Sentence{
		{"concurrent keys do not disturb one another", concurrentKeys},
		{"run returns nil when its context ends", runReturnsNil},
		{"a change that nobody applied is told", changeIsTold},
	}
}

func concurrentKeys(c check) {
	c.run()
	errs := make([]error, len(keys()))
	var all sync.WaitGroup
	for i := range keys() {
		all.Go(func() { errs[i] = c.walk(i) })
	}
	all.Wait()
	for i, err := range errs {
		if err != nil {
			c.Fatalf("%s beside other keys: %v", keys()[i], err)
		}
		c.settled(c.plain(i))
	}
}

// walk leads the i-th key through a life that ends with the plain balancer.
// It runs beside the test's own goroutine, so it returns what goes wrong.
func (c check) walk(i int) error {
	for _, want := range []model.Balancer{c.plain(i), c.rich(i), {}, c.rich(i), c.plain(i)} {
		if err := c.stride(keys()[i], want); err != nil {
			return err
		}
		if _, err := c.Provider.List(c.Context()); err != nil {
			return err
		}
	}
	return nil
}

// stride applies one want, or a removal when it is zero, and looks whether it is there.
func (c check) stride(key model.Key, want model.Balancer) error {
	p, err := c.missing(key, want)
	if err != nil {
		return err
	}
	failed, err := c.Provider.Apply(c.Context(), p)
	if err != nil {
		return err
	}
	if len(failed) > 0 {
		return fmt.Errorf("ports are not served: %v", failed)
	}
	rest, err := c.missing(key, want)
	if err == nil && !rest.Empty() {
		return fmt.Errorf("after\n%sthere remain\n%s", p.Text(), rest.Text())
	}
	return err
}

func (c check) missing(key model.Key, want model.Balancer) (plan.Plan, error) {
	o, err := c.Provider.Observe(c.Context(), key)
	if want.UID == "" {
		return plan.Remove(key, o), err
	}
	return plan.Diff(want, o), err
}

func runReturnsNil(c check) {
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- c.Provider.Run(ctx, func(model.Key) {}) }()
	c.bring(c.plain(0))
	select {
	case err := <-done:
		c.Fatalf("Run returns (%v) before its context ends", err)
	default:
	}
	cancel()
	select {
	case err := <-done:
		if err != nil {
			c.Fatalf("Run returns %v after its context ended, want nil", err)
		}
	case <-time.After(c.Patience):
		c.Fatalf("Run does not return within %v after its context ended", c.Patience)
	}
}

func changeIsTold(c check) {
	told := c.run()
	want := c.rich(0)
	c.bring(want)
	c.Disturb(want)
	deadline := time.NewTimer(c.Patience)
	defer deadline.Stop()
	for {
		select {
		case k := <-told:
			if k == want.Key {
				return
			}
		case <-deadline.C:
			c.Fatalf("nothing was told within %v after the backend changed by itself", c.Patience)
		}
	}
}
