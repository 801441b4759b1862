package proxy

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/netio"
)

// TestTR01UnchangedSocket changes everything about a listener but its port:
// the socket is the same one, and the connection on it lives on (incident 26).
func TestTR01UnchangedSocket(t *testing.T) {
	r := newRig(t, Config{})
	a, b := named(t, "a"), named(t, "b")
	r.set(listener(tcpPort(8080), a))
	c := r.dial(8080)
	read(t, c, 1)
	before := r.socketOf(8080)
	l := listener(tcpPort(8080), b)
	l.Timeouts.ClientData = time.Hour
	l.Pool.ProxyProtocol, l.Pool.Algorithm, l.Pool.Affinity = model.ProxyV2, model.LeastConnections, time.Minute
	r.set(l, listener(tcpPort(8081), a))
	if r.socketOf(8080) != before {
		t.Error("the listener has another socket")
	}
	write(t, c, "x")
	read(t, c, 1)
	if got := read(t, r.dial(8080), 1); got != "b" {
		t.Errorf("a new connection went to %q, want b", got)
	}
}

func (r *rig) socketOf(port uint16) *socket {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sockets[socketID{r.at(port), model.TCP}]
}

// TestTR02RemovedPortDrains: the connections of a removed port do not live on
// for ever (incident 29).
func TestTR02RemovedPortDrains(t *testing.T) {
	r := newRig(t, Config{DrainTimeout: time.Second})
	member := named(t, "a")
	r.set(listener(tcpPort(8080), member), listener(tcpPort(8081), member))
	c := r.dial(8080)
	read(t, c, 1)
	r.set(listener(tcpPort(8081), member))
	if _, err := netio.DialTCP(t.Context(), r.at(8080)); netio.CauseOf(err) != netio.Refused {
		t.Errorf("connecting to the removed port: %v, want a refusal at once", err)
	}
	write(t, c, "x")
	read(t, c, 1) // still relayed
	mustReset(t, c)
}

func TestTR02RemovedPortCutsAtOnce(t *testing.T) {
	r := newRig(t, Config{DrainTimeout: time.Hour})
	member := named(t, "a")
	l := listener(tcpPort(8080), member)
	l.Timeouts.Drain = model.CutAtOnce
	r.set(l, listener(tcpPort(8081), member))
	c := r.dial(8080)
	read(t, c, 1)
	r.set(listener(tcpPort(8081), member))
	mustReset(t, c)
}

func TestTR02RemovedOwner(t *testing.T) {
	r := newRig(t, Config{DrainTimeout: -1})
	r.set(listener(tcpPort(8080), named(t, "a")))
	c := r.dial(8080)
	read(t, c, 1)
	r.set()
	mustReset(t, c)
	if got := r.State(r.owner); got.Exists {
		t.Errorf("the removed owner is still there: %+v", got)
	}
	if got := r.Owners(); len(got) != 0 {
		t.Errorf("owners %v, want none", got)
	}
}

func TestNewUIDIsAnotherOwner(t *testing.T) {
	r := newRig(t, Config{DrainTimeout: -1})
	member := named(t, "a")
	r.set(listener(tcpPort(8080), member))
	c := r.dial(8080)
	read(t, c, 1)
	if faults := r.Set(r.owner, "another", []netip.Addr{r.vip}, []model.Listener{listener(tcpPort(8080), member)}); len(faults) > 0 {
		t.Fatal(faults)
	}
	mustReset(t, c)
	read(t, r.dial(8080), 1)
	if got := r.port(tcpPort(8080)).Accepted; got != 1 {
		t.Errorf("%d connections counted, want the new owner's only", got)
	}
}

func TestOwnersShareAnAddress(t *testing.T) {
	r := newRig(t, Config{})
	other := model.Key{Namespace: "shop", Name: "api"}
	r.set(listener(tcpPort(8080), named(t, "a")))
	if faults := r.Set(other, "uid", []netip.Addr{r.vip}, []model.Listener{listener(tcpPort(8081), named(t, "b"))}); len(faults) > 0 {
		t.Fatal(faults)
	}
	if got := read(t, r.dial(8080), 1) + read(t, r.dial(8081), 1); got != "ab" {
		t.Errorf("got %q, want ab", got)
	}
	if diff := cmp.Diff([]model.Key{other, r.owner}, r.Owners()); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	r.set()
	if got := read(t, r.dial(8081), 1); got != "b" {
		t.Errorf("after the other owner went, got %q, want b", got)
	}
}

func TestStateIsWhatIsServed(t *testing.T) {
	r := newRig(t, Config{PortOffset: 8000})
	l := listener(tcpPort(8080), named(t, "a"))
	r.set(l)
	want := model.Observed{
		Exists:   true,
		Balancer: model.Balancer{Key: r.owner, UID: "uid", Addresses: []netip.Addr{r.vip}, Listeners: []model.Listener{l}}.Normalize(),
		Health: []model.PortHealth{{
			Port: tcpPort(8080), At: []netip.AddrPort{r.at(16080)},
			Members: []model.MemberHealth{{Address: l.Pool.Members[0].Address, State: model.MemberUnknown}},
		}},
	}
	if diff := cmp.Diff(want, r.State(r.owner), cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
		cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
	if got := read(t, r.dial(16080), 1); got != "a" {
		t.Errorf("at the offset port got %q, want a", got)
	}
	if got := r.State(model.Key{Name: "nobody"}); got.Exists {
		t.Errorf("an unknown owner exists: %+v", got)
	}
}

func TestSetBeforeRun(t *testing.T) {
	p := New(Config{})
	vip := testAddress(t)
	key := model.Key{Namespace: "a", Name: "b"}
	if faults := p.Set(key, "uid", []netip.Addr{vip}, []model.Listener{listener(tcpPort(8080), named(t, "a"))}); len(faults) > 0 {
		t.Fatal(faults)
	}
	c := dialTest(t, netip.AddrPortFrom(vip, 8080)) // the kernel holds it until Run
	r := &rig{Proxy: p, t: t, vip: vip}
	r.run()
	read(t, c, 1)
	_ = c.Close()
	r.stop()
	if faults := p.Set(key, "uid", []netip.Addr{vip}, []model.Listener{listener(tcpPort(8080))}); len(faults) != 1 || faults[0].Reason != ProxyStopped {
		t.Errorf("Set after Run: %+v, want %s", faults, ProxyStopped)
	}
	if err := p.Run(t.Context(), func(model.Key) {}); err == nil {
		t.Error("a second Run returned no error")
	}
}

func TestShutdownGrace(t *testing.T) {
	r := newRig(t, Config{ShutdownGrace: 300 * time.Millisecond})
	got := make(chan error, 1)
	r.set(listener(tcpPort(8080), backend(t, func(c *net.TCPConn) {
		_, _ = io.WriteString(c, "a")
		_, err := io.Copy(c, c)
		got <- err
	})))
	c := r.dial(8080)
	read(t, c, 1)
	r.stop()
	mustReset(t, c)
	if err := take(t, got); netio.CauseOf(err) != netio.WasReset {
		t.Errorf("the member's connection ended with %v, want a reset", err)
	}
}

func TestPortErrors(t *testing.T) {
	r := newRig(t, Config{RetryDelay: 10 * time.Millisecond})
	taken := netip.AddrPortFrom(r.vip, 8081)
	_, free := backendAt(t, taken, greet("other"))
	other := model.Key{Namespace: "shop", Name: "api"}
	member := named(t, "a")
	if faults := r.Set(other, "uid", []netip.Addr{r.vip}, []model.Listener{listener(tcpPort(8082), member)}); len(faults) > 0 {
		t.Fatal(faults)
	}
	faults := r.Set(r.owner, "uid", []netip.Addr{r.vip}, []model.Listener{
		listener(tcpPort(8080), member), listener(tcpPort(8081), member), listener(tcpPort(8082), member),
		listener(model.Port{Protocol: model.SCTP, Number: 8083}, member),
	})
	want := []model.PortError{
		{Port: tcpPort(8081), Reason: PortInUse, Message: "port 8081 of " + r.vip.String() + " is in use by another program: stop it or choose another address"},
		{Port: tcpPort(8082), Reason: PortInUse, Message: "port 8082 of " + r.vip.String() + " is already served for shop/api"},
		{Port: model.Port{Protocol: model.SCTP, Number: 8083}, Reason: ProtocolNotSupported, Message: "protocol SCTP of port 8083 cannot be relayed: use TCP or UDP"},
	}
	if diff := cmp.Diff(want, faults); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if got := read(t, r.dial(8080), 1); got != "a" {
		t.Errorf("the good port serves %q, want a", got)
	}
	free()
	if got := take(t, r.changed); got != r.owner {
		t.Errorf("news of %v, want %v", got, r.owner)
	}
	if got := r.State(r.owner).Health[1].Error; got.Reason != "" {
		t.Errorf("after the port became free its error is %+v", got)
	}
	if got := read(t, r.dial(8081), 1); got != "a" {
		t.Errorf("the freed port serves %q, want a", got)
	}
}

func TestAddressErrors(t *testing.T) {
	r := newRig(t, Config{})
	elsewhere := netip.MustParseAddr("192.0.2.1")
	faults := r.Set(r.owner, "uid", []netip.Addr{r.vip, elsewhere}, []model.Listener{listener(tcpPort(8080), named(t, "a"))})
	want := []model.PortError{{Port: tcpPort(8080), Reason: AddressNotOnThisMachine, Message: "address 192.0.2.1 is not on this machine"}}
	if diff := cmp.Diff(want, faults); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	read(t, r.dial(8080), 1) // the other address serves
	faults = r.Set(r.owner, "uid", []netip.Addr{netip.IPv4Unspecified()}, []model.Listener{listener(udpPort(5300))})
	if len(faults) != 1 || faults[0].Reason != AddressUnspecified {
		t.Errorf("UDP on no particular address: %+v, want %s", faults, AddressUnspecified)
	}
}

func TestOffsetOutOfRange(t *testing.T) {
	r := newRig(t, Config{PortOffset: 65000})
	faults := r.Set(r.owner, "uid", []netip.Addr{r.vip}, []model.Listener{listener(tcpPort(8080))})
	if len(faults) != 1 || faults[0].Reason != PortOutOfRange {
		t.Errorf("%+v, want %s", faults, PortOutOfRange)
	}
}

func TestPrivilegedPortMessage(t *testing.T) {
	err := fmt.Errorf("listening: %w", os.NewSyscallError("bind", syscall.EACCES))
	got := bindError(tcpPort(80), netip.MustParseAddrPort("127.0.0.1:80"), 0, err)
	want := model.PortError{
		Port: tcpPort(80), Reason: PortNotPermitted,
		Message: `port 80 needs root here: run "sysctl net.ipv4.ip_unprivileged_port_start=80" or set local.portOffset: 8000 in the configuration`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}
