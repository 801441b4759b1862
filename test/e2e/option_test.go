//go:build linux

package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	proxyproto "github.com/pires/go-proxyproto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairlead-lb/fairlead/api/annotation"
	"github.com/fairlead-lb/fairlead/api/v1alpha1"
	"github.com/fairlead-lb/fairlead/internal/status"
	"github.com/fairlead-lb/fairlead/internal/translate"
)

// optionTest tries one option: that what it says is done, in a Service that
// would be served otherwise without it. Those that make Nodes take turns.
type optionTest struct {
	run   func(*testing.T, space)
	alone bool
}

// optionTests holds a test of each option that the local provider supports, run
// against a program.
func optionTests(p *program) map[annotation.Name]optionTest {
	return map[annotation.Name]optionTest{
		annotation.ProviderName:                {run: optionProvider},
		annotation.Paused:                      {run: optionPaused},
		annotation.HostnameName:                {run: optionHostname},
		annotation.Address:                     {run: optionAddress},
		annotation.SourceRanges:                {run: optionSourceRanges},
		annotation.Share:                       {run: shareWithin},
		annotation.AllowSharedIP:               {run: shareAcross},
		annotation.Observed:                    {run: optionObserved},
		annotation.ProxyProtocol:               {run: optionProxyProtocol},
		annotation.ProxyProtocolUniqueID:       {run: optionUniqueID},
		annotation.ConnectionLimit:             {run: optionConnectionLimit},
		annotation.ConnectionLimitMode:         {run: optionLimitMode},
		annotation.TimeoutClientData:           {run: cuts(annotation.TimeoutClientData)},
		annotation.TimeoutMemberData:           {run: cuts(annotation.TimeoutMemberData)},
		annotation.TimeoutMemberConnect:        {run: optionMemberConnect},
		annotation.UDPIdleTimeout:              {run: p.optionUDPIdle},
		annotation.DrainTimeout:                {run: optionDrain},
		annotation.LBMethod:                    {run: optionMethod},
		annotation.TargetType:                  {run: optionTargetType, alone: true},
		annotation.NodeSelector:                {run: optionNodeSelector, alone: true},
		annotation.EnableHealthMonitor:         {run: optionMonitor},
		annotation.HealthMonitorDelay:          {run: optionMonitorDelay},
		annotation.HealthMonitorTimeout:        {run: optionMonitorTimeout},
		annotation.HealthMonitorMaxRetries:     {run: optionRetriesUp},
		annotation.HealthMonitorMaxRetriesDown: {run: optionRetriesDown},
	}
}

// TestOptionsHaveTests: the table of options names a test for each option that
// a provider supports; those of the local provider are here, and no others.
func TestOptionsHaveTests(t *testing.T) {
	have := optionTests(nil)
	for _, o := range annotation.Table() {
		s := o.On(annotation.Local)
		_, tried := have[o.Name]
		if tried != (s.State == annotation.Supported) {
			t.Errorf("option %s is %s, and that it is tried is %t", o.Name, s.State, tried)
		}
		if want := "TestOption/" + string(o.Name) + "/local"; tried && s.Test != want {
			t.Errorf("the table says that %s is tried by %s, not %s", o.Name, s.Test, want)
		}
	}
}

// TestOption tries each option of the local provider. The names of its subtests
// are those in the table.
func TestOption(t *testing.T) {
	tests := optionTests(start(t, settings{"defaultProvider": "local", "shutdown": settings{"drain": "0s"}}))
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		test := tests[name]
		t.Run(string(name), func(t *testing.T) {
			if !test.alone {
				t.Parallel()
			}
			t.Run("local", func(t *testing.T) { test.run(t, newSpace(t)) })
		})
	}
}

// plain makes a Service with one pod, and returns where it is served.
func (s space) plain(t *testing.T, edit func(*corev1.Service)) string {
	t.Helper()
	s.service(t, "lb", edit)
	s.publish(t, "lb", serve(t, "pod"), ready())
	to := endpoint(s.served(t, "lb"), 8080)
	answers(t, to, "pod")
	return to
}

// optionProvider: a Service without a class names its provider. One that is not
// configured is no reason to leave the Service alone where there is a default.
func optionProvider(t *testing.T, s space) {
	s.plain(t, all(classless, asking(annotation.ProviderName, "local")))
	s.recordedProvider(t, "lb", "local")
	s.service(t, "other", all(classless, asking(annotation.ProviderName, "bare-metal")))
	s.served(t, "other")
	s.recordedProvider(t, "other", "local")
	s.service(t, "third", asking(annotation.ProviderName, "bare-metal"))
	s.served(t, "third")
}

// recordedProvider checks who serves a Service according to its record.
func (s space) recordedProvider(t *testing.T, name, want string) {
	t.Helper()
	var record v1alpha1.ServiceRecord
	key := client.ObjectKey{Namespace: "fairlead-system", Name: v1alpha1.RecordName(s.name, name)}
	if err := s.client.Get(t.Context(), key, &record); err != nil {
		t.Fatal(err)
	}
	if record.Spec.Provider != want {
		t.Errorf("service %s is served by %s, not %s", name, record.Spec.Provider, want)
	}
}

func optionPaused(t *testing.T, s space) {
	s.service(t, "lb", asking(annotation.Paused, "true"))
	s.refused(t, "lb", "Paused")
	s.await(t, "lb", "gets nothing", all2(guarded(), at()))
	s.change(t, "lb", asking(annotation.Paused, "false"))
	s.served(t, "lb")
}

func optionHostname(t *testing.T, s space) {
	to := s.plain(t, nil)
	s.change(t, "lb", asking(annotation.HostnameName, "shop.example.com"))
	s.await(t, "lb", "publishes the name", all2(current, at("shop.example.com")))
	answers(t, to, "pod")
}

func optionAddress(t *testing.T, s space) {
	want := ownAddress(200, 60)
	if to := s.plain(t, asking(annotation.Address, want)); to != endpoint(want, 8080) {
		t.Errorf("served at %s", to)
	}
}

func optionSourceRanges(t *testing.T, s space) {
	s.service(t, "lb", asking(annotation.SourceRanges, ownAddress(250, 0)+"/24"))
	s.publish(t, "lb", serve(t, "pod"), ready())
	to := endpoint(s.served(t, "lb"), 8080)
	eventually(t, "who is in the ranges is admitted", func() error {
		_, _, err := ask(to, ownAddress(250, 7))
		return err
	})
	if _, _, err := ask(to, ownAddress(251, 7)); err == nil {
		t.Error("who is not in the ranges is admitted")
	}
}

func optionObserved(t *testing.T, s space) {
	s.plain(t, nil)
	before := s.await(t, "lb", "is current", current).Annotations[annotation.Observed.Key()]
	s.change(t, "lb", asking(annotation.ConnectionLimit, "7"))
	svc := s.await(t, "lb", "is current again", current)
	if after := svc.Annotations[annotation.Observed.Key()]; after == before || after != translate.Fingerprint(svc) {
		t.Errorf("the fingerprint was %q and is %q", before, after)
	}
}

// optionProxyProtocol: the pod is told who the client is, in both versions.
func optionProxyProtocol(t *testing.T, s space) {
	raw, err := net.Listen("tcp", netip.AddrPortFrom(podAddress(t), 0).String())
	if err != nil {
		t.Fatal(err)
	}
	pod := serveOn(t, "pod", &proxyproto.Listener{Listener: raw, ConnPolicy: func(proxyproto.ConnPolicyOptions) (proxyproto.Policy, error) {
		return proxyproto.REQUIRE, nil
	}})
	from := ownAddress(250, 9)
	s.service(t, "lb", asking(annotation.ProxyProtocol, "v1"))
	s.publish(t, "lb", pod, ready())
	to := endpoint(s.served(t, "lb"), 8080)
	for _, version := range []string{"v1", "v2"} {
		s.change(t, "lb", asking(annotation.ProxyProtocol, version))
		s.await(t, "lb", "is current", current)
		eventually(t, "the pod sees the client by "+version, func() error {
			_, seen, err := ask(to, from)
			if err == nil && !strings.HasPrefix(seen, from+":") {
				err = fmt.Errorf("it sees %s", seen)
			}
			return err
		})
	}
}

// optionUniqueID: each connection brings another id, of 16 bytes, in its header.
func optionUniqueID(t *testing.T, s space) {
	raw, err := net.Listen("tcp", netip.AddrPortFrom(podAddress(t), 0).String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = raw.Close() }()
	at, err := netip.ParseAddrPort(raw.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s.service(t, "lb", annotated(annotation.ProxyProtocol.Key(), "v2", annotation.ProxyProtocolUniqueID.Key(), "true"))
	s.publish(t, "lb", &backend{name: "pod", at: at}, ready())
	ids := make(chan string, 100)
	go func() {
		for {
			c, err := raw.Accept()
			if err != nil {
				close(ids)
				return
			}
			ids <- uniqueID(c)
		}
	}()
	to := endpoint(s.served(t, "lb"), 8080)
	seen := map[string]bool{}
	eventually(t, "three connections with ids", func() error {
		if _, _, err := ask(to, ""); err != nil {
			return err
		}
		id := <-ids
		if len(id) != 16 || seen[id] {
			return fmt.Errorf("the id is %x, after %d others", id, len(seen))
		}
		if seen[id] = true; len(seen) < 3 {
			return fmt.Errorf("%d ids so far", len(seen))
		}
		return nil
	})
}

// uniqueID answers a connection and returns what its header has in the field
// PP2_TYPE_UNIQUE_ID (PROXY protocol v2, 2.2.5).
func uniqueID(c net.Conn) string {
	defer func() { _ = c.Close() }()
	header, err := proxyproto.Read(bufio.NewReader(c))
	_, _ = fmt.Fprintln(c, "pod")
	if err != nil {
		return err.Error()
	}
	tlvs, err := header.TLVs()
	if err != nil {
		return err.Error()
	}
	for _, tlv := range tlvs {
		if tlv.Type == proxyproto.PP2_TYPE_UNIQUE_ID {
			return string(tlv.Value)
		}
	}
	return ""
}

// optionLimitMode: one client too many is told at once.
func optionLimitMode(t *testing.T, s space) {
	to := s.plain(t, annotated(annotation.ConnectionLimit.Key(), "1", annotation.ConnectionLimitMode.Key(), "refuse"))
	var first net.Conn
	eventually(t, "the first is served", func() error {
		c, err := dialNode(to, "pod")
		first = c
		return err
	})
	defer func() { _ = first.Close() }()
	second, err := dial("tcp", to, "")
	if err == nil {
		defer func() { _ = second.Close() }()
		_, err = second.Read(make([]byte, 1))
	}
	if err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the second is not refused: %v", err)
	}
}

// optionConnectionLimit: the second waits until the first leaves.
func optionConnectionLimit(t *testing.T, s space) {
	to := s.plain(t, asking(annotation.ConnectionLimit, "1"))
	first, err := dial("tcp", to, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = first.Close() }()
	buffer := make([]byte, 200)
	if _, err := first.Read(buffer); err != nil {
		t.Fatal(err)
	}
	second, err := dial("tcp", to, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Close() }()
	if err := second.SetDeadline(time.Now().Add(answerTime / 6)); err != nil {
		t.Fatal(err)
	}
	if n, err := second.Read(buffer); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the second is answered %q, %v", buffer[:n], err)
	}
	_ = first.Close()
	if err := second.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Read(buffer); err != nil {
		t.Errorf("the second is not answered when the first has left: %v", err)
	}
}

// cuts tries a time-out of silence that is far shorter than the default.
func cuts(o annotation.Name) func(*testing.T, space) {
	return func(t *testing.T, s space) {
		to := s.plain(t, asking(o, "300"))
		c, err := dial("tcp", to, "")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		// Within patience, which is shorter than the 50 s of the default.
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("silence is not cut: %v", err)
		}
	}
}

// optionMemberConnect: a pod that takes no connection is given up in time, and
// the condition says how long that was.
func optionMemberConnect(t *testing.T, s space) {
	s.service(t, "lb", asking(annotation.TimeoutMemberConnect, "250"))
	s.publish(t, "lb", deaf(t, "deaf"), ready())
	s.publish(t, "lb", serve(t, "pod"), ready())
	to := endpoint(s.served(t, "lb"), 8080)
	answers(t, to, "pod")
	s.awaitText(t, to, "no answer within 250ms")
}

// awaitText asks at an address until the Service's condition holds a text.
func (s space) awaitText(t *testing.T, to, text string) {
	t.Helper()
	s.await(t, "lb", "says "+text, func(svc *corev1.Service) error {
		if to != "" {
			_, _, _ = ask(to, "")
		}
		for _, c := range svc.Status.Conditions {
			if c.Type == status.Programmed && contains(c.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", svc.Status.Conditions)
	})
}

// deaf is a pod whose backlog is full: the kernel drops who wants to connect.
func deaf(t *testing.T, name string) *backend {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: podAddress(t).As4()}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	in4, ok := bound.(*syscall.SockaddrInet4)
	if !ok {
		t.Fatalf("bound to %v", bound)
	}
	at := netip.AddrPortFrom(netip.AddrFrom4(in4.Addr), uint16(in4.Port))
	filler, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = filler.Close() })
	return &backend{name: name, at: at}
}

// optionUDPIdle: a client that is silent for so long is forgotten.
func (p *program) optionUDPIdle(t *testing.T, s space) {
	s.service(t, "lb", all(asking(annotation.UDPIdleTimeout, "1000"), func(svc *corev1.Service) {
		svc.Spec.Ports[0].Protocol = corev1.ProtocolUDP
	}))
	s.publish(t, "lb", serve(t, "pod"), ready())
	answersUDP(t, endpoint(s.served(t, "lb"), 8080), "pod")
	// Within patience, which is shorter than the two minutes of the default.
	eventually(t, "the flow is closed", func() error {
		n, err := p.counter("fairlead_proxy_closed_total", `namespace="`+s.name+`"`)
		if err == nil && n == 0 {
			err = errors.New("it is not")
		}
		return err
	})
}

// optionDrain: connections to a pod that is gone from the Service are cut when
// their time is over.
func optionDrain(t *testing.T, s space) {
	s.service(t, "lb", asking(annotation.DrainTimeout, "300"))
	old := serve(t, "old")
	s.publish(t, "lb", old, ready())
	to := endpoint(s.served(t, "lb"), 8080)
	answers(t, to, "old")
	c, err := dialNode(to, "old")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	s.publish(t, "lb", serve(t, "new"), ready())
	s.withdraw(t, "lb", old)
	// Within patience, which is shorter than the five minutes of the default.
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection lives on: %v", err)
	}
	answers(t, to, "new")
}

// optionMethod: by source, a client stays and clients differ.
func optionMethod(t *testing.T, s space) {
	s.service(t, "lb", asking(annotation.LBMethod, "SOURCE_IP"))
	for _, name := range []string{"a", "b", "c"} {
		s.publish(t, "lb", serve(t, name), ready())
	}
	to := endpoint(s.served(t, "lb"), 8080)
	eventually(t, "each client has its pod, and not all the same", func() error {
		all := map[string]bool{}
		for i := range 12 {
			seen := hosts(t, to, ownAddress(250, 20+i), 5)
			if len(seen) != 1 {
				return fmt.Errorf("client %d meets %v", i, seen)
			}
			maps.Copy(all, map[string]bool{slices.Collect(maps.Keys(seen))[0]: true})
		}
		if len(all) < 2 {
			return fmt.Errorf("all clients meet %v", all)
		}
		return nil
	})
}

func optionTargetType(t *testing.T, s space) {
	svc := s.service(t, "lb", all(withNodePorts, asking(annotation.TargetType, "pod")))
	s.node(t, "node-1", nodeAddress(1))
	nodeSocket(t, "node-1", nodeAddress(1), svc.Spec.Ports[0].NodePort)
	s.publish(t, "lb", serve(t, "pod"), ready())
	to := endpoint(s.served(t, "lb"), 8080)
	byNodes(t, to, "pod")
	s.change(t, "lb", asking(annotation.TargetType, "node"))
	byNodes(t, to, "node-1")
}

func optionNodeSelector(t *testing.T, s space) {
	to, _ := s.nodeService(t, asking(annotation.TargetType, "node"))
	byNodes(t, to, "node-1", "node-2")
	s.patchNode(t, "node-2", `{"metadata":{"labels":{"role":"edge"}}}`)
	s.change(t, "lb", asking(annotation.NodeSelector, "role=edge"))
	byNodes(t, to, "node-2")
	s.patchNode(t, "node-1", `{"metadata":{"labels":{"role":"edge"}}}`)
	byNodes(t, to, "node-1", "node-2")
}

// monitored asks for a health monitor with the shortest times.
func monitored(svc *corev1.Service) {
	annotated(annotation.EnableHealthMonitor.Key(), "true", annotation.HealthMonitorDelay.Key(), "1",
		annotation.HealthMonitorTimeout.Key(), "1")(svc)
}

// optionMonitor: a pod is asked although no client comes, and one that does not
// answer gets no client.
func optionMonitor(t *testing.T, s space) {
	s.service(t, "lb", monitored)
	pod := serve(t, "pod")
	s.publish(t, "lb", pod, ready())
	s.served(t, "lb")
	eventually(t, "the pod is checked", func() error {
		if n := pod.connections(); n < 2 {
			return fmt.Errorf("%d times so far", n)
		}
		return nil
	})
	pod.close()
	s.awaitText(t, "", "refused")
}

// optionMonitorDelay: two checks follow each other faster than the 5 s of the
// default.
func optionMonitorDelay(t *testing.T, s space) {
	s.service(t, "lb", monitored)
	pod := serve(t, "pod")
	s.publish(t, "lb", pod, ready())
	s.served(t, "lb")
	last, count := time.Time{}, 0
	eventually(t, "two checks within 4 s", func() error {
		if n := pod.connections(); n != count {
			now := time.Now()
			quick := !last.IsZero() && now.Sub(last) < 4*time.Second
			last, count = now, n
			if quick {
				return nil
			}
		}
		return fmt.Errorf("%d checks so far", count)
	})
}

// optionMonitorTimeout: who does not answer in this time is down, and the
// condition says the time.
func optionMonitorTimeout(t *testing.T, s space) {
	s.service(t, "lb", all(monitored, asking(annotation.HealthMonitorTimeout, "2"), asking(annotation.HealthMonitorDelay, "2")))
	s.publish(t, "lb", deaf(t, "deaf"), ready())
	s.served(t, "lb")
	s.awaitText(t, "", "no answer within 2s")
}

// optionRetriesDown: with ten failures to wait for, a pod that was up stays so
// for at least nine more checks of 1 s; with one it is down at the next.
func optionRetriesDown(t *testing.T, s space) {
	s.service(t, "lb", all(monitored, asking(annotation.HealthMonitorMaxRetriesDown, "1")))
	pod := serve(t, "pod")
	s.publish(t, "lb", pod, ready())
	s.served(t, "lb")
	eventually(t, "the pod is checked", func() error {
		if pod.connections() < 1 {
			return errors.New("not yet")
		}
		return nil
	})
	pod.close()
	s.awaitText(t, "", "refused")
}

// optionRetriesUp: a pod that was down and comes back is up again.
func optionRetriesUp(t *testing.T, s space) {
	s.service(t, "lb", all(monitored, asking(annotation.HealthMonitorMaxRetries, "2")))
	pod := serve(t, "pod")
	pod.close()
	s.publish(t, "lb", pod, ready())
	s.served(t, "lb")
	s.awaitText(t, "", "refused")
	back := serveAt(t, "pod", pod.at)
	s.await(t, "lb", "is as if nothing had been", all2(says(status.Programmed, metav1.ConditionTrue, ""), func(svc *corev1.Service) error {
		for _, c := range svc.Status.Conditions {
			if contains(c.Message, "refused") {
				return errors.New(c.Message)
			}
		}
		return nil
	}))
	if n := back.connections(); n < 2 {
		t.Errorf("it was up after %d checks", n)
	}
}
