package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/netio"
)

// How long the soak test takes: 30 s, or ten minutes when FAIRLEAD_TEST_LONG is 1.
const (
	soakTime     = 30 * time.Second
	soakTimeLong = 10 * time.Minute
)

// soak is a proxy with members that die and clients that misbehave.
type soak struct {
	*rig
	random  *rand.Rand
	members []*soakMember
	clients sync.WaitGroup
	// echoed counts answers that were what was sent, broken connections that
	// ended early, which is the clients' and members' own doing here.
	echoed, datagrams, broken atomic.Int64
}

// soakMember is a backend that can die and come back.
type soakMember struct {
	at   netip.AddrPort
	stop func()
}

// TestSoakLeavesNothing changes the configuration, kills members and lets
// clients abort, all at random; what is echoed must be what was sent. In the
// end everything that was opened is closed (incidents 20, 25, 26, 29, 38).
func TestSoakLeavesNothing(t *testing.T) {
	length := soakTime
	if os.Getenv("FAIRLEAD_TEST_LONG") == "1" {
		length = soakTimeLong
	}
	if testing.Short() {
		length = 2 * time.Second
	}
	seed := rand.Uint64()
	runtime.GC() // pipes of earlier tests
	files, goroutines := openFiles(), runtime.NumGoroutine()
	s := &soak{
		rig:    newRig(t, Config{DrainTimeout: 100 * time.Millisecond, FinTimeout: 200 * time.Millisecond, FlowTimeout: 300 * time.Millisecond, SlowStart: time.Second}),
		random: rand.New(rand.NewPCG(seed, 0)),
	}
	for range 4 {
		m := &soakMember{at: netip.AddrPortFrom(testAddress(t), 8080)}
		m.start(t)
		s.members = append(s.members, m)
	}
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	s.configure()
	for i := range 12 {
		s.clients.Go(func() { s.speak(ctx, t, rand.New(rand.NewPCG(seed, uint64(i+1)))) })
	}
	for i := range 4 {
		s.clients.Go(func() { s.ask(ctx, t, rand.New(rand.NewPCG(seed, uint64(i+100)))) })
	}
	s.disturb(ctx, t)
	s.clients.Wait()
	if s.echoed.Load() < 20 || s.datagrams.Load() < 20 {
		t.Errorf("seed %d: %d connections and %d datagrams were answered: that proves nothing", seed, s.echoed.Load(), s.datagrams.Load())
	}
	t.Logf("seed %d: %d connections echoed, %d broken, %d datagrams", seed, s.echoed.Load(), s.broken.Load(), s.datagrams.Load())
	s.mustBeEmpty(seed)
	for _, m := range s.members {
		m.stop()
	}
	s.stop()
	const testAddresses = 5 // sockets that hold addresses until the test ends
	eventually(t, "descriptors and goroutines are as before", func() bool {
		runtime.GC()
		return openFiles() <= files+testAddresses+runtimeFiles && runtime.NumGoroutine() <= goroutines
	})
}

func (m *soakMember) start(t *testing.T) {
	t.Helper()
	_, tcp := backendAt(t, m.at, func(c *net.TCPConn) { _, _ = io.Copy(c, c) })
	udp := udpBackend(t, m.at, echo)
	m.stop = func() {
		tcp()
		udp()
	}
}

// configure sets ports with random members and options.
func (s *soak) configure() {
	r := s.random
	ports := []model.Port{tcpPort(8080), tcpPort(8081), udpPort(5353)}
	var listeners []model.Listener
	for _, p := range ports {
		if r.IntN(10) == 0 {
			continue // removed for a while
		}
		l := model.Listener{Port: p}
		for _, m := range s.members {
			if r.IntN(4) > 0 {
				l.Pool.Members = append(l.Pool.Members, model.Member{Address: m.at, Weight: r.IntN(3)})
			}
		}
		algorithms := []model.Algorithm{model.RoundRobin, model.LeastConnections, model.SourceIP, model.SourceIPPort}
		l.Pool.Algorithm = algorithms[r.IntN(len(algorithms))]
		if r.IntN(3) == 0 {
			l.Pool.Affinity = time.Duration(r.IntN(500)) * time.Millisecond
		}
		if r.IntN(2) == 0 {
			l.Pool.Monitor = model.Monitor{Type: "TCP", Port: 8080, Delay: 50 * time.Millisecond, Timeout: 50 * time.Millisecond, MaxRetries: 1, MaxRetriesDown: 1}
		}
		if r.IntN(3) == 0 {
			limit := 1 + r.IntN(6)
			l.ConnectionLimit = &limit
			l.LimitMode = []model.LimitMode{model.LimitQueue, model.LimitRefuse}[r.IntN(2)]
		}
		l.Timeouts.ClientData = time.Duration(50+r.IntN(500)) * time.Millisecond
		l.Timeouts.UDPIdle = time.Duration(1+r.IntN(300)) * time.Millisecond
		listeners = append(listeners, l)
	}
	s.set(listeners...)
}

// disturb changes something every few milliseconds until the time is over, and
// then brings all members back.
func (s *soak) disturb(ctx context.Context, t *testing.T) {
	tick := time.NewTicker(15 * time.Millisecond)
	defer tick.Stop()
	dead := map[*soakMember]bool{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.changed: // news are taken, or Run would wait
			continue
		case <-tick.C:
		}
		m := s.members[s.random.IntN(len(s.members))]
		switch {
		case s.random.IntN(3) > 0:
			s.configure()
		case dead[m]:
			m.start(t)
			delete(dead, m)
		default:
			m.stop()
			dead[m] = true
		}
	}
}

// speak connects, sends and reads back, and leaves in one of several ways.
func (s *soak) speak(ctx context.Context, t *testing.T, r *rand.Rand) {
	for ctx.Err() == nil {
		c, err := netio.DialTCP(ctx, s.at(uint16(8080+r.IntN(2))))
		if err != nil {
			s.broken.Add(1)
			continue
		}
		_ = c.SetDeadline(time.Now().Add(time.Second))
		sent := make([]byte, 1+r.IntN(100_000))
		for i := range sent {
			sent[i] = byte(r.Uint32())
		}
		s.converse(t, c, sent, r.IntN(4))
	}
}

func (s *soak) converse(t *testing.T, c *net.TCPConn, sent []byte, manner int) {
	const (
		abort = iota // leaves in the middle, by RST
		leave        // leaves in the middle, by FIN
	)
	var written sync.WaitGroup
	written.Go(func() {
		if _, err := c.Write(sent); err == nil {
			_ = c.CloseWrite()
		}
	})
	want := len(sent)
	if manner == abort || manner == leave {
		want /= 2
	}
	got := make([]byte, want)
	n, err := io.ReadFull(c, got)
	if !bytes.Equal(got[:n], sent[:n]) {
		t.Errorf("%d bytes came back changed", n)
	}
	if err != nil {
		s.broken.Add(1)
	} else {
		s.echoed.Add(1)
	}
	if manner == abort {
		_ = netio.Reset(c)
	} else {
		_ = c.Close()
	}
	written.Wait()
}

// ask sends datagrams and takes what comes back, some of them from sockets that
// are gone at once.
func (s *soak) ask(ctx context.Context, t *testing.T, r *rand.Rand) {
	buf := make([]byte, netio.DatagramSize)
	for ctx.Err() == nil {
		c, err := netio.DialUDP(s.at(5353))
		if err != nil {
			t.Error(err)
			return
		}
		for range 1 + r.IntN(5) {
			sent := make([]byte, r.IntN(2000))
			for i := range sent {
				sent[i] = byte(len(sent))
			}
			_ = c.SetDeadline(time.Now().Add(20 * time.Millisecond))
			if _, err := c.Write(sent); err != nil {
				continue
			}
			n, err := c.Read(buf)
			switch {
			case err == nil && wholeDatagram(buf[:n]):
				s.datagrams.Add(1)
			case err == nil:
				t.Errorf("a datagram of %d bytes came back changed", n)
			case errors.Is(err, os.ErrDeadlineExceeded):
				s.broken.Add(1)
			}
		}
		_ = c.Close()
	}
}

// wholeDatagram tells whether each byte is the datagram's length, as it was sent:
// an answer may be that of an earlier one.
func wholeDatagram(b []byte) bool {
	for _, x := range b {
		if x != byte(len(b)) {
			return false
		}
	}
	return true
}

// mustBeEmpty removes everything and waits until nothing is left in the proxy.
func (s *soak) mustBeEmpty(seed uint64) {
	s.t.Helper()
	s.set()
	eventually(s.t, "the proxy is empty", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.checks.mu.Lock()
		defer s.checks.mu.Unlock()
		return len(s.retired) == 0 && len(s.sockets) == 0 && len(s.owners) == 0 && len(s.checks.byTarget) == 0 && s.budget.used.Load() == 0
	})
	if s.t.Failed() {
		s.t.Logf("seed %d", seed)
	}
}
