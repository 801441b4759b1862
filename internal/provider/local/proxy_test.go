package local_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/plan"
	"github.com/fairlead-lb/fairlead/internal/provider/local"
	"github.com/fairlead-lb/fairlead/internal/provider/providertest"
	"github.com/fairlead-lb/fairlead/internal/proxy"
)

// The contract holds with the proxy and real sockets.
func TestContractOverProxy(t *testing.T) {
	providertest.Run(t, proxyHarness)
}

func proxyHarness(t *testing.T) providertest.Harness {
	p := proxy.New(proxy.Config{
		RetryDelay: time.Millisecond, DrainTimeout: -1, ShutdownGrace: -1,
	})
	t.Cleanup(func() { closeSockets(p) })
	first, second := backend(t), backend(t)
	return providertest.Harness{
		Provider:  local.New(p),
		Snapshot:  func() string { return servedText(p) },
		Addresses: loopback(),
		Ports:     freePorts(t, 3),
		Members:   []netip.AddrPort{address(first), address(second)},
		Block: func(b model.Balancer, port model.Port) func() {
			return occupy(t, netip.AddrPortFrom(b.Addresses[0], port.Number))
		},
		Disturb: func(model.Balancer) {
			// Its checks find it down.
			if err := first.Close(); err != nil {
				t.Error(err)
			}
		},
		Patience: 30 * time.Second,
	}
}

// closeSockets ends the sockets that Set opened, whether Run ran or not.
func closeSockets(p *proxy.Proxy) {
	for _, k := range p.Owners() {
		p.Set(k, "", nil, nil)
	}
}

// servedText is what the proxy serves, without what changes by itself.
func servedText(p *proxy.Proxy) string {
	var text strings.Builder
	for _, k := range p.Owners() {
		b := p.State(k).Balancer
		fmt.Fprintf(&text, "uid %s %s", b.UID, b.Text())
	}
	return text.String()
}

// backend is a server that accepts until it is closed, and says nothing.
func backend(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.77.1.9:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	t.Cleanup(func() {
		if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
		<-done
	})
	return l
}

func address(l net.Listener) netip.AddrPort { return netip.MustParseAddrPort(l.Addr().String()) }

// occupy listens where the proxy is to listen, until release is called.
func occupy(t *testing.T, at netip.AddrPort) (release func()) {
	t.Helper()
	l, err := net.Listen("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	release = func() { _ = l.Close() }
	t.Cleanup(release)
	return release
}

// freePorts returns ports, ascending, that the kernel found free at every
// address of this package.
func freePorts(t *testing.T, n int) []uint16 {
	t.Helper()
	var ports []uint16
	for len(ports) < n {
		l, err := net.Listen("tcp", netip.AddrPortFrom(loopback()[0], 0).String())
		if err != nil {
			t.Fatal(err)
		}
		// It stays open until all are found, so that none is found twice.
		defer l.Close()
		p := address(l).Port()
		for _, a := range loopback()[1:] {
			occupy(t, netip.AddrPortFrom(a, p))()
		}
		ports = append(ports, p)
	}
	slices.Sort(ports)
	return ports
}

// A plan that was applied carries bytes, from a client to a member and back.
func TestTraffic(t *testing.T) {
	h := proxyHarness(t)
	echo := echoServer(t)
	port := model.Port{Protocol: model.TCP, Number: h.Ports[0]}
	want := model.Balancer{
		Key: model.Key{Namespace: "shop", Name: "web"}, UID: "uid-1", Addresses: h.Addresses[:1],
		Listeners: []model.Listener{{Port: port, Pool: model.Pool{Members: []model.Member{{Address: echo, Weight: 1}}}}},
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Provider.Run(ctx, func(model.Key) {}) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	if failed, err := h.Provider.Apply(ctx, plan.Diff(want, model.Observed{})); err != nil || len(failed) > 0 {
		t.Fatalf("Apply returns %v and port errors %v", err, failed)
	}
	conn, err := net.Dial("tcp", netip.AddrPortFrom(want.Addresses[0], port.Number).String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(h.Patience)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "hello" {
		t.Errorf("the client reads %q (%v), want its own words", got, err)
	}
}

// echoServer answers one connection with what it reads.
func echoServer(t *testing.T) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.77.1.9:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if c, err := l.Accept(); err == nil {
			_, _ = io.Copy(c, c)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return address(l)
}
