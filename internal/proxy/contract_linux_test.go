package proxy

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// TestLB04SearchEnds: when every member has been tried, is down, drains or is
// gone, the search ends, and what comes back is not chosen twice.
func TestLB04SearchEnds(t *testing.T) {
	for name, method := range map[string]model.Algorithm{
		"RoundRobin": model.RoundRobin, "Incident22LeastConnections": model.LeastConnections, "SourceIP": model.SourceIP,
	} {
		t.Run(name, func(t *testing.T) {
			s := testService(t, Config{}, func(l *model.Listener) { l.Pool.Algorithm = method }, 3)
			var tried []*member
			for range 3 {
				m := s.choose(client(0), tried, &nobody{})
				if m == nil {
					t.Fatalf("no member after %d tries of 3", len(tried))
				}
				tried = append(tried, m)
			}
			if m := s.choose(client(0), tried, &nobody{}); m != nil {
				t.Errorf("a fourth member of three: %v", m.address)
			}
			// One goes down while its connections close: it stays out.
			x := &nobody{}
			m := s.choose(client(0), nil, x)
			m.health.down.Store(true)
			m.links.remove(x)
			for i := range 20 {
				if got := s.choose(client(i), nil, &nobody{}); got == m {
					t.Fatal("a member that went down was chosen")
				}
			}
		})
	}
}

// TestLB06EstablishedStay changes everything that decides about new
// connections: an established one stays where it is.
func TestLB06EstablishedStay(t *testing.T) {
	r := newRig(t, Config{})
	a, b := named(t, "a"), named(t, "b")
	r.set(listener(tcpPort(8080), a))
	c := r.dial(8080)
	read(t, c, 1)
	l := listener(tcpPort(8080), a, b)
	for i, m := range l.Pool.Members {
		if m.Address == a {
			l.Pool.Members[i].Weight = 0
		}
	}
	l.Pool.Algorithm = model.LeastConnections
	r.set(l)
	r.set(listener(tcpPort(8080), b))
	if got := read(t, r.dial(8080), 1); got != "b" {
		t.Errorf("a new connection went to %q, want b", got)
	}
	write(t, c, "x")
	if got := read(t, c, 1); got != "x" {
		t.Errorf("the established connection echoed %q, want x", got)
	}
	if got := r.port(tcpPort(8080)).Members[0].Active; got != 1 {
		t.Errorf("b has %d connections, want the new one only", got)
	}
}

// TestUD13FlowsOfOneClient: protocols that use several flows (SIP, RADIUS) have
// them all at one member, by hash or by affinity.
func TestUD13FlowsOfOneClient(t *testing.T) {
	for name, change := range map[string]func(*model.Pool){
		"SourceIP": func(p *model.Pool) { p.Algorithm = model.SourceIP },
		"ClientIP": func(p *model.Pool) { p.Affinity = time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{})
			l := listener(udpPort(5353), udpNamed(t, "a"), udpNamed(t, "b"), udpNamed(t, "c"))
			change(&l.Pool)
			r.set(l)
			first := ask(t, r.udp(5353), "x")
			for range 8 {
				if got := ask(t, r.udp(5353), "x"); got != first {
					t.Errorf("one flow went to %q, another to %q", first, got)
				}
			}
		})
	}
}

// TestTL09NoLocalPort: a port that is missing here is counted and never held
// against the member.
func TestTL09NoLocalPort(t *testing.T) {
	s := testService(t, Config{}, nil, 2)
	err := fmt.Errorf("connecting: %w", syscall.EADDRNOTAVAIL)
	for range 10 {
		s.connectFailed(s.at(0), err)
	}
	if got := s.at(0).health.report(s.at(0).address).Cause; got != "" {
		t.Errorf("the member is blamed: %q", got)
	}
	if got := s.stats().OutOfPorts; got != 10 {
		t.Errorf("%d missing ports counted, want 10", got)
	}
}
