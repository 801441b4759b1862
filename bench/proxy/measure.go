//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// bench is one run.
type bench struct {
	settings

	dir     string
	backend *process
	members []netip.AddrPort
	// rounds of figures, by subject.
	results map[string][]figures
}

// figures are what one subject measured in one round, by name; what could not
// be measured is absent.
type figures map[string]float64

// load is a named load with what it measures.
type load struct {
	name string
	spec loadSpec
	udp  bool
	// figures turns its result and the proxy's processor time into figures.
	figures func(r loadResult, cpu time.Duration) figures
}

// loads are made one after the other.
func (b *bench) loads() []load {
	const answer = 128
	return []load{
		{
			name: throughput1, spec: loadSpec{Kind: streams, Clients: 1, Size: 8 << 20},
			figures: func(r loadResult, cpu time.Duration) figures {
				return figures{throughput1: rate(r.Bytes, r), cpuPerGiB1: per(cpu, r.Bytes, 1<<30)}
			},
		},
		{
			name: throughput100, spec: loadSpec{Kind: streams, Clients: 100, Size: 512 << 10},
			figures: func(r loadResult, cpu time.Duration) figures {
				return figures{throughput100: rate(r.Bytes, r), cpuPerGiB: per(cpu, r.Bytes, 1<<30)}
			},
		},
		{
			name: connRate, spec: loadSpec{Kind: connections, Clients: 32, Size: answer},
			figures: func(r loadResult, cpu time.Duration) figures {
				return figures{connRate: rate(r.Count, r), cpuPerConns: per(cpu, r.Count, 1000)}
			},
		},
		{
			name: requestRate, spec: loadSpec{Kind: requests, Clients: 64, Size: answer},
			figures: func(r loadResult, cpu time.Duration) figures {
				return figures{requestRate: rate(r.Count, r), cpuPerRequests: per(cpu, r.Count, 1000)}
			},
		},
		{
			// Well below saturation: at it, latency is the length of a queue.
			name: latency, spec: loadSpec{Kind: requests, Clients: 50, Size: answer, Pause: 25 * time.Millisecond},
			figures: func(r loadResult, _ time.Duration) figures {
				return figures{p50: float64(r.P50.Nanoseconds()) / 1e3, p99: float64(r.P99.Nanoseconds()) / 1e3}
			},
		},
		{
			name: udpPPS, udp: true, spec: loadSpec{Kind: datagrams, Clients: 16, Size: datagram},
			figures: func(r loadResult, cpu time.Duration) figures {
				return figures{udpPPS: rate(r.Count, r), udpLost: float64(r.Lost) / float64(max(r.Count+r.Lost, 1)), cpuPerDatagrams: per(cpu, r.Count, 1000)}
			},
		},
	}
}

func rate(n int64, r loadResult) float64 { return float64(n) / r.Took.Seconds() }

// per is the processor time in milliseconds for each unit of n.
func per(cpu time.Duration, n, unit int64) float64 {
	return cpu.Seconds() * 1000 * float64(unit) / float64(max(n, 1))
}

// measure starts a subject, makes every load on it and ends it. It measures
// memory first: a process that has worked holds memory in reserve.
func (b *bench) measure(ctx context.Context, s subject) (figures, error) {
	p, to, err := b.launch(ctx, s)
	if err != nil {
		return nil, err
	}
	if s.argv != nil {
		defer p.kill()
	}
	f := figures{}
	if s.argv != nil && b.wanted(idleBytes) {
		if f[idleBytes], err = b.idleMemory(ctx, p, loadSpec{Kind: idling, To: to, Clients: b.idle, Size: 128}); err != nil {
			return nil, err
		}
	}
	for _, l := range b.loads() {
		if l.udp && !s.udp || !b.wanted(l.name) {
			continue
		}
		l.spec.To, l.spec.For = to, b.window
		more, err := b.underLoad(ctx, p, l)
		if err != nil {
			return nil, fmt.Errorf("making the load %s: %w", l.name, err)
		}
		maps.Copy(f, more)
	}
	return f, nil
}

// underLoad makes one load on a process.
func (b *bench) underLoad(ctx context.Context, p *process, l load) (figures, error) {
	before, err := p.cpu()
	if err != nil {
		return nil, err
	}
	r, err := b.generate(ctx, l.spec)
	if err != nil {
		return nil, err
	}
	after, err := p.cpu()
	if err != nil {
		return nil, err
	}
	return l.figures(r, after-before), nil
}

func (b *bench) wanted(name string) bool { return b.only == "" || b.only == name }

// generator returns the command of a load process.
func (b *bench) generator(ctx context.Context, spec loadSpec) (*exec.Cmd, error) {
	argv, err := self("load", spec)
	if err != nil {
		return nil, err
	}
	argv = b.niced(argv)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd, nil
}

func (b *bench) generate(ctx context.Context, spec loadSpec) (r loadResult, err error) {
	ctx, cancel := context.WithTimeout(ctx, spec.For+patience)
	defer cancel()
	cmd, err := b.generator(ctx, spec)
	if err != nil {
		return r, err
	}
	out, err := cmd.Output()
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(out, &r)
}

// idleMemory is how many bytes each idle connection adds to the proxy.
func (b *bench) idleMemory(ctx context.Context, p *process, spec loadSpec) (bytes float64, err error) {
	before, err := p.resident()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	cmd, err := b.generator(ctx, spec)
	if err != nil {
		return 0, err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("starting the load: %w", err)
	}
	var r loadResult
	read := json.NewDecoder(out).Decode(&r)
	after, err := p.resident()
	err = errors.Join(read, err, in.Close(), cmd.Wait())
	return float64(after-before) / float64(spec.Clients), err
}
