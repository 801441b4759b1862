package server

import (
	"context"
	"fmt"
	"time"
)

// pollEvery is how often a start asks whether what it waits for has happened.
const pollEvery = 25 * time.Millisecond

// part is a component that runs in this process until it is stopped.
type part struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
	err    error // valid once done is closed
}

// startPart runs a component. Its context is detached from ctx's end: parts
// are stopped one after another, those that use another part before it.
func startPart(ctx context.Context, name string, run func(context.Context) error) *part {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &part{name: name, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = run(ctx)
	}()
	return p
}

// ended tells why the part is no longer running. It blocks until that is so.
func (p *part) ended() error {
	<-p.done
	if p.err != nil {
		return fmt.Errorf("running %s: %w", p.name, p.err)
	}
	return fmt.Errorf("running %s: it ended by itself", p.name)
}

// stop ends the part and waits for it, for at most patience.
func (p *part) stop(patience time.Duration) {
	p.cancel()
	select {
	case <-p.done:
	case <-time.After(patience):
	}
}

// await calls ok until it returns nil, the part ends or ctx does; it says what
// it waited for, and what ok said last. The context that ok is given ends with
// the part: a request to a server that has failed would hang otherwise, since
// its socket is open.
func (p *part) await(ctx context.Context, what string, ok func(context.Context) error) error {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-p.done:
			cancel()
		case <-asking.Done():
		}
	}()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		last := ok(asking)
		if last == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.done:
			return p.ended()
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w: %w", what, context.Cause(ctx), last)
		}
	}
}
