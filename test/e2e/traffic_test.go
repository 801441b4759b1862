//go:build linux

package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairlead-lb/fairlead/internal/testenv"
)

// answerTime is how long one question may wait for its answer.
const answerTime = 3 * time.Second

// podAddress is an address of this machine that the API server takes for a
// pod's: EndpointSlices refuse loopback.
func podAddress(t *testing.T) netip.Addr {
	t.Helper()
	found, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range found {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && p.Addr().Is4() && p.Addr().IsGlobalUnicast() {
			return p.Addr()
		}
	}
	testenv.Require(t, "an IPv4 address other than loopback on this machine", false)
	return netip.Addr{}
}

// backend stands for a pod: it answers each TCP connection with a line, its
// name and who it sees as the client, and echoes lines after that; each UDP
// datagram with its name. It is safe for concurrent use.
type backend struct {
	name string
	at   netip.AddrPort
	tcp  net.Listener
	udp  *net.UDPConn

	mu    sync.Mutex
	conns map[net.Conn]bool
	seen  int
}

// serve starts a backend at the pods' address, on a free port for TCP and UDP.
func serve(t *testing.T, name string) *backend {
	t.Helper()
	return serveAt(t, name, netip.AddrPortFrom(podAddress(t), 0))
}

func serveAt(t *testing.T, name string, at netip.AddrPort) *backend {
	t.Helper()
	tcp, err := net.Listen("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, name, tcp)
}

// serveOn serves TCP by a listener, and UDP on the same port if that is free.
func serveOn(t *testing.T, name string, tcp net.Listener) *backend {
	t.Helper()
	at, err := netip.ParseAddrPort(tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	udp, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	if err != nil {
		t.Fatal(err)
	}
	b := &backend{name: name, at: at, tcp: tcp, udp: udp, conns: map[net.Conn]bool{}}
	go b.acceptAll()
	go b.answerDatagrams()
	t.Cleanup(b.close)
	return b
}

// close ends the backend like a process that is killed.
func (b *backend) close() {
	_ = b.tcp.Close()
	_ = b.udp.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.conns {
		_ = c.Close()
	}
}

func (b *backend) acceptAll() {
	for {
		c, err := b.tcp.Accept()
		if err != nil {
			return
		}
		b.mu.Lock()
		b.conns[c] = true
		b.seen++
		b.mu.Unlock()
		go b.answer(c)
	}
}

func (b *backend) answer(c net.Conn) {
	defer func() {
		_ = c.Close()
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.conns, c)
	}()
	// RemoteAddr of a PROXY connection waits for the header.
	if _, err := fmt.Fprintf(c, "%s %s\n", b.name, c.RemoteAddr()); err != nil {
		return
	}
	lines := bufio.NewScanner(c)
	for lines.Scan() {
		if _, err := fmt.Fprintln(c, lines.Text()); err != nil {
			return
		}
	}
}

func (b *backend) answerDatagrams() {
	buffer := make([]byte, 2048)
	for {
		_, from, err := b.udp.ReadFromUDPAddrPort(buffer)
		if err != nil {
			return
		}
		_, _ = b.udp.WriteToUDPAddrPort([]byte(b.name), from)
	}
}

// connections tells how many TCP connections there have been.
func (b *backend) connections() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen
}

// The states of an endpoint (KEP-1672).
type state struct{ ready, serving, terminating bool }

func ready() state       { return state{ready: true, serving: true} }
func terminating() state { return state{serving: true, terminating: true} }

// publish writes that a backend is an endpoint of a Service: of every port that
// the Service has. Publishing again updates.
func (s space) publish(t *testing.T, service string, b *backend, is state) {
	t.Helper()
	s.publishOn(t, service, b, is, "")
}

// publishOn publishes with the name of the node that the pod would run on.
func (s space) publishOn(t *testing.T, service string, b *backend, is state, node string) {
	t.Helper()
	svc, err := s.get(t.Context(), service)
	if err != nil {
		t.Fatal(err)
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.name, Name: service + "-" + b.name,
			Labels: map[string]string{discoveryv1.LabelServiceName: service, discoveryv1.LabelManagedBy: "fairlead-e2e"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{
			Addresses:  []string{b.at.Addr().String()},
			Conditions: discoveryv1.EndpointConditions{Ready: &is.ready, Serving: &is.serving, Terminating: &is.terminating},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: s.name, Name: b.name},
		}},
	}
	if node != "" {
		slice.Endpoints[0].NodeName = &node
	}
	number := int32(b.at.Port())
	for i := range svc.Spec.Ports {
		p := &svc.Spec.Ports[i]
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &p.Name, Protocol: &p.Protocol, Port: &number})
	}
	err = s.client.Create(t.Context(), slice)
	if apierrors.IsAlreadyExists(err) {
		err = s.client.Update(t.Context(), slice)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// withdraw removes a backend from a Service.
func (s space) withdraw(t *testing.T, service string, b *backend) {
	t.Helper()
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: service + "-" + b.name}}
	if err := s.client.Delete(t.Context(), slice); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
}

// endpoint joins an address and a port number.
func endpoint(address string, number int) string {
	return net.JoinHostPort(address, strconv.Itoa(number))
}

// dial connects, from a local address if one is given.
func dial(network, to, from string) (net.Conn, error) {
	d := net.Dialer{Timeout: answerTime}
	if from != "" {
		a, err := netip.ParseAddr(from)
		if err != nil {
			return nil, err
		}
		if network == "udp" {
			d.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(a, 0))
		} else {
			d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(a, 0))
		}
	}
	c, err := d.DialContext(context.Background(), network, to)
	if err != nil {
		return nil, err
	}
	return c, c.SetDeadline(time.Now().Add(answerTime))
}

// ask opens a connection and returns who answers, and as whom it sees us.
func ask(to, from string) (name, seenAs string, err error) {
	c, err := dial("tcp", to, from)
	if err != nil {
		return "", "", err
	}
	defer func() { _ = c.Close() }()
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return "", "", err
	}
	name, seenAs, _ = strings.Cut(strings.TrimSpace(line), " ")
	return name, seenAs, nil
}

// askUDP sends a datagram on a socket and returns who answers.
func askUDP(c net.Conn) (string, error) {
	if err := c.SetDeadline(time.Now().Add(answerTime / 6)); err != nil {
		return "", err
	}
	if _, err := c.Write([]byte("?")); err != nil {
		return "", err
	}
	buffer := make([]byte, 2048)
	n, err := c.Read(buffer)
	return string(buffer[:n]), err
}

// answers waits until a TCP address is answered by a backend.
func answers(t *testing.T, to, want string) {
	t.Helper()
	eventually(t, to+" answers as "+want, func() error {
		name, _, err := ask(to, "")
		if err == nil && name != want {
			err = fmt.Errorf("%q answers", name)
		}
		return err
	})
}

// answersUDP waits until a UDP address is answered by a backend, each time
// asking from a new port.
func answersUDP(t *testing.T, to, want string) {
	t.Helper()
	eventually(t, to+" answers by UDP as "+want, func() error {
		c, err := dial("udp", to, "")
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		name, err := askUDP(c)
		if err == nil && name != want {
			err = fmt.Errorf("%q answers", name)
		}
		return err
	})
}

// silent waits until nobody answers at a TCP address any more.
func silent(t *testing.T, to, from string) {
	t.Helper()
	eventually(t, to+" is silent", func() error {
		if name, _, err := ask(to, from); err == nil {
			return fmt.Errorf("%q answers", name)
		}
		return nil
	})
}

// silentUDP waits until nobody answers at a UDP address any more.
func silentUDP(t *testing.T, to string) {
	t.Helper()
	eventually(t, to+" is silent", func() error {
		c, err := dial("udp", to, "")
		if err != nil {
			return nil
		}
		defer func() { _ = c.Close() }()
		if name, err := askUDP(c); err == nil {
			return fmt.Errorf("%q answers", name)
		}
		return nil
	})
}

// poker asks an address again and again, by a new connection each time.
type poker struct {
	stop context.CancelFunc
	done chan struct{}

	mu       sync.Mutex
	asked    int
	run      int // answers in a row by run's end
	by       string
	failures []error
}

// poke asks some hundred times a second until the test ends or halt is called.
func poke(t *testing.T, to string) *poker {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p := &poker{stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			name, _, err := ask(to, "")
			p.note(name, err)
			<-tick.C
		}
	}()
	t.Cleanup(func() { p.halt() })
	return p
}

func (p *poker) note(name string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	if err != nil {
		p.failures = append(p.failures, fmt.Errorf("question %d: %w", p.asked, err))
		return
	}
	if p.by != name {
		p.by, p.run = name, 0
	}
	p.run++
}

// halt ends the questions.
func (p *poker) halt() {
	p.stop()
	<-p.done
}

// steadily waits until one backend alone has answered 20 times in a row.
func (p *poker) steadily(t *testing.T, name string) {
	t.Helper()
	eventually(t, name+" answers everything", func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.by != name || p.run < 20 {
			return fmt.Errorf("%q answered the last %d questions", p.by, p.run)
		}
		return nil
	})
}

// heard waits for n more answers by anybody.
func (p *poker) heard(t *testing.T, n int) {
	t.Helper()
	begin := p.answered()
	eventually(t, fmt.Sprintf("%d more answers", n), func() error {
		if have := p.answered() - begin; have < n {
			return fmt.Errorf("%d so far", have)
		}
		return nil
	})
}

func (p *poker) answered() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked - len(p.failures)
}

// failed returns what went wrong.
func (p *poker) failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.failures) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d questions failed: %w", len(p.failures), p.asked, errors.Join(p.failures[:min(5, len(p.failures))]...))
}
