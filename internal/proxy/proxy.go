// Package proxy is the L4 data plane: it listens at the addresses of balancers
// and relays TCP connections and UDP datagrams to their members, with PROXY
// headers, limits, time-outs, affinity, health checks and draining. It is told
// the whole wanted set of one owner at a time and says what it really serves.
// It never looks into the relayed bytes, never chooses an address, and knows
// neither Kubernetes nor the other providers.
package proxy

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/netio"
)

// Config is how a Proxy behaves. The zero value of every field is usable.
type Config struct {
	// Log gets one line for each change of what is served, and at debug level
	// one for each connection that ends; nil: no log.
	Log *slog.Logger
	// Inherited are sockets of an earlier process, which Set uses instead of
	// binding; nil: there was none.
	Inherited *Inherited
	// PortOffset is added to the port of every listener.
	PortOffset int
	// Random is where round robin starts and how checks are spread; nil: the
	// runtime's generator. It must be safe for concurrent use.
	Random func() uint64
	// DrainTimeout is how long connections of a removed listener or a draining
	// member may go on, unless the listener says otherwise; zero: 300 s;
	// negative: they are cut at once.
	DrainTimeout time.Duration
	// FinTimeout bounds the silence of a connection that one side has ended;
	// zero: 30 s.
	FinTimeout time.Duration
	// FlowTimeout is how long a UDP flow may be silent, unless the listener says
	// otherwise; zero: 120 s (RFC 4787 REQ-5 asks for that much at least).
	FlowTimeout time.Duration
	// SlowStart is how long a member that comes back from a failure takes to get
	// its whole share again, as does a new one under least connections; zero:
	// 10 s; negative: it gets it at once. Source hashing knows no slow start:
	// proxies have to agree.
	SlowStart time.Duration
	// FlowLimit is the greatest number of UDP flows of one listener; zero:
	// 10000. A flow costs one file descriptor and about 8 KiB.
	FlowLimit int
	// RetryDelay is how long a listener that could not be bound waits for the
	// next attempt; zero: 5 s.
	RetryDelay time.Duration
	// ShutdownGrace is how long connections may go on when Run ends; zero: 10 s;
	// negative: they are cut at once.
	ShutdownGrace time.Duration
}

// housekeepingPeriod is how exact drain deadlines and expiries are.
const housekeepingPeriod = 500 * time.Millisecond

func (c Config) completed() Config {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Random == nil {
		c.Random = rand.Uint64
	}
	if c.FlowLimit == 0 {
		c.FlowLimit = 10_000
	}
	orElse := func(d *time.Duration, otherwise time.Duration) {
		if *d == 0 {
			*d = otherwise
		}
	}
	orElse(&c.DrainTimeout, 300*time.Second)
	orElse(&c.FinTimeout, 30*time.Second)
	orElse(&c.FlowTimeout, 120*time.Second)
	orElse(&c.SlowStart, 10*time.Second)
	orElse(&c.RetryDelay, 5*time.Second)
	orElse(&c.ShutdownGrace, 10*time.Second)
	return c
}

// Proxy serves balancers. All methods may be called concurrently.
type Proxy struct {
	cfg     Config
	budget  *budget
	checks  *checks
	tasks   tasks
	news    news
	buffers netio.Buffers
	batches netio.Batches

	mu      sync.Mutex
	owners  map[model.Key]*owner
	sockets map[socketID]*socket
	// retired are sockets that no longer listen and whose connections drain.
	retired []*socket
	stopped bool
}

// New returns a proxy that serves nothing yet. Sockets are bound by Set and
// served while Run runs.
func New(cfg Config) *Proxy {
	files, err := netio.OpenFiles()
	if err != nil {
		files = minOpenFiles
	}
	cfg = cfg.completed()
	p := &Proxy{
		cfg:     cfg,
		budget:  newBudget(files),
		news:    news{wake: make(chan struct{}, 1), keys: map[model.Key]struct{}{}},
		owners:  map[model.Key]*owner{},
		sockets: map[socketID]*socket{},
	}
	p.checks = newChecks(cfg.Random, &p.tasks)
	return p
}

// Run serves until ctx ends; then it stops accepting, lets connections go on
// for the configured grace, cuts what is left and returns nil. changed is
// called, by one goroutine at a time, when the health or the errors of an
// owner changed outside Set. A Proxy runs once.
func (p *Proxy) Run(ctx context.Context, changed func(model.Key)) error {
	if !p.tasks.start(context.WithoutCancel(ctx)) {
		return errors.New("running the proxy: it has run before")
	}
	tick := time.NewTicker(housekeepingPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			p.stop()
			return nil
		case <-p.news.wake:
			for _, key := range p.news.take() {
				changed(key)
			}
		case now := <-tick.C:
			p.keepHouse(now)
		}
	}
}

// keepHouse does what is due at a moment: drained connections are cut, failed
// listeners are tried again, memory of the past is dropped.
func (p *Proxy) keepHouse(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.owners {
		for _, s := range o.services {
			s.keepHouse(now)
		}
	}
	p.retired = slices.DeleteFunc(p.retired, func(s *socket) bool {
		finished := s.finished.Load()
		return s.links.cutIfDue(now, ReasonDrain) && finished
	})
	p.retry(now)
}

// stop ends everything, first in order and then by force.
func (p *Proxy) stop() {
	p.mu.Lock()
	p.stopped = true
	for _, key := range p.keys() {
		p.remove(p.owners[key])
	}
	retired := p.retired
	p.mu.Unlock()
	finished := make(chan struct{})
	go func() {
		p.tasks.wait()
		close(finished)
	}()
	grace := time.NewTimer(max(p.cfg.ShutdownGrace, 0))
	defer grace.Stop()
	for {
		select {
		case <-finished:
			return
		case <-grace.C:
			for _, s := range retired {
				s.links.cut(ReasonShutdown)
			}
			// Who was being accepted meanwhile is cut by the next round.
			grace.Reset(housekeepingPeriod)
		}
	}
}

// tasks are the goroutines of a proxy. What is added before the start begins
// with it; nothing outlives wait.
type tasks struct {
	mu      sync.Mutex
	ctx     context.Context //nolint:containedctx // the goroutines of one Run share it
	waiting []func(context.Context)
	group   sync.WaitGroup
}

func (t *tasks) add(f func(context.Context)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx == nil {
		t.waiting = append(t.waiting, f)
		return
	}
	t.group.Go(func() { f(t.ctx) })
}

func (t *tasks) start(ctx context.Context) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx != nil {
		return false
	}
	t.ctx = ctx
	for _, f := range t.waiting {
		t.group.Go(func() { f(ctx) })
	}
	t.waiting = nil
	return true
}

func (t *tasks) wait() { t.group.Wait() }

// news are the owners whose state changed, until somebody is told.
type news struct {
	wake chan struct{}
	mu   sync.Mutex
	keys map[model.Key]struct{}
}

func (n *news) add(key model.Key) {
	n.mu.Lock()
	n.keys[key] = struct{}{}
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func (n *news) take() []model.Key {
	n.mu.Lock()
	defer n.mu.Unlock()
	keys := make([]model.Key, 0, len(n.keys))
	for key := range n.keys {
		keys = append(keys, key)
	}
	clear(n.keys)
	slices.SortFunc(keys, model.Key.Compare)
	return keys
}
