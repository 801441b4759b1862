//go:build linux

package demo

import (
	"context"
	"io"
	"sync"

	"github.com/fairlead-lb/fairlead/internal/devcluster"
)

// build is the building of the development cluster beside the first step.
type build struct {
	cancel context.CancelFunc
	news   *gate
	done   chan struct{}
	binary string
	err    error
}

// startBuild begins to build. Its progress is held back until it is waited
// for, so that it does not interrupt what is being shown.
func startBuild(ctx context.Context, out io.Writer) *build {
	ctx, cancel := context.WithCancel(ctx)
	b := &build{cancel: cancel, news: &gate{out: out}, done: make(chan struct{})}
	go func() {
		defer close(b.done)
		b.binary, b.err = devcluster.Build(ctx, devcluster.Options{Out: b.news})
	}()
	return b
}

// wait shows the progress, what was held back first, and returns the binary.
func (b *build) wait() (string, error) {
	if err := b.news.open(); err != nil {
		return "", err
	}
	<-b.done
	return b.binary, b.err
}

// stop ends a build that is still going on. A build that never began, nil, has
// ended.
func (b *build) stop() {
	if b == nil {
		return
	}
	b.cancel()
	<-b.done
}

// gate is a writer that keeps what it is given until it is opened. It is safe
// for concurrent use.
type gate struct {
	out io.Writer

	mu     sync.Mutex
	opened bool
	held   []byte
}

// Write holds p back, or passes it on.
func (g *gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened {
		return g.out.Write(p)
	}
	g.held = append(g.held, p...)
	return len(p), nil
}

func (g *gate) open() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opened = true
	_, err := g.out.Write(g.held)
	g.held = nil
	return err
}
