//go:build linux

package demo

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pollEvery is how often something is looked at that cannot be watched.
const pollEvery = 100 * time.Millisecond

// lasting is an error that no waiting mends.
type lasting struct{ error }

// Unwrap returns the error itself.
func (l lasting) Unwrap() error { return l.error }

// until repeats try until it returns nil or a lasting error, for at most
// patience. what completes the sentence "waiting for …".
func until(ctx context.Context, patience time.Duration, what string, try func() error) error {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := try()
		var end lasting
		if err == nil || errors.As(err, &end) {
			return err
		}
		select {
		case <-bounded.Done():
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return fmt.Errorf("waiting %s for %s: %w", patience, what, err)
		case <-time.After(pollEvery):
		}
	}
}
