//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairlead-lb/fairlead/api/v1alpha1"
	"github.com/fairlead-lb/fairlead/internal/translate"
)

// TestWhileDown changes Services while no controller runs, in ways that leave
// upstream's controller with a load balancer that nobody cleans up, and checks
// what the next start makes of them.
func TestWhileDown(t *testing.T) {
	p := start(t, settings{"defaultProvider": "local", "addresses": settings{"releaseDelay": "1h"}})
	s := newSpace(t)
	names := []string{"stays", "deleted", "torn-off", "class-change", "reborn", "addressed"}
	addresses := map[string]string{}
	for i, name := range names {
		s.service(t, name, all(classless, asking("address", ownAddress(200, 80+i))))
		s.publish(t, name, serve(t, name), ready())
		addresses[name] = s.served(t, name)
	}
	other := serve(t, "other")
	p.kill(t)

	s.delete(t, "deleted") // waits for its finalizer
	// B6: somebody tore the finalizers off, and the Service is gone.
	s.change(t, "torn-off", func(svc *corev1.Service) { svc.Finalizers = nil })
	s.delete(t, "torn-off")
	// SC-25, W6: two writes that look like a change of class.
	s.change(t, "class-change", ofType(corev1.ServiceTypeClusterIP))
	s.change(t, "class-change", func(svc *corev1.Service) {
		theirs := "example.com/other"
		svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeLoadBalancer, &theirs
	})
	// SC-16: another object of the same name, which asks for nothing special.
	s.change(t, "reborn", func(svc *corev1.Service) { svc.Finalizers = nil })
	s.delete(t, "reborn")
	s.gone(t, "reborn")
	reborn := s.service(t, "reborn", classless)
	// The record is lost; the finalizer and the status are what is left.
	record := &v1alpha1.ServiceRecord{}
	record.Namespace, record.Name = "fairlead-system", v1alpha1.RecordName(s.name, "addressed")
	if err := s.client.Delete(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	s.change(t, "addressed", annotated("fairlead.dev/address", "-"))
	s.service(t, "new", all(classless, asking("address", addresses["addressed"])))

	p.run(t)
	for _, name := range []string{"stays", "addressed", "reborn"} {
		if got := s.served(t, name); got != addresses[name] {
			t.Errorf("%s had %s and has %s", name, addresses[name], got)
		}
	}
	s.refused(t, "new", "AddressInUse")
	s.gone(t, "deleted")
	s.unrecorded(t, "deleted")
	s.unrecorded(t, "torn-off")
	s.await(t, "class-change", "has nothing of ours", all2(guarded(), at()))
	s.unrecorded(t, "class-change")
	var now v1alpha1.ServiceRecord
	key := client.ObjectKey{Namespace: "fairlead-system", Name: v1alpha1.RecordName(s.name, "reborn")}
	if err := s.client.Get(t.Context(), key, &now); err != nil || now.Spec.ServiceRef.UID != reborn.UID {
		t.Errorf("the record is of %s, the Service is %s (%v)", now.Spec.ServiceRef.UID, reborn.UID, err)
	}
	// What was torn off is not given to others at once. Who was there before the
	// address was released would have waited for it, and may have it; Services
	// tell the second that they were created in, so the next one begins first.
	var held v1alpha1.AddressReservation
	if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: "fairlead-system", Name: addresses["torn-off"]}, &held); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the next second has begun", func() error {
		if left := time.Until(held.Spec.Since.Add(2 * time.Second)); left > 0 {
			return fmt.Errorf("in %v", left)
		}
		return nil
	})
	s.service(t, "late", all(classless, asking("address", addresses["torn-off"])))
	s.refused(t, "late", "AddressHeld")
	s.publish(t, "stays", other, ready())
	byNodes(t, endpoint(addresses["stays"], 8080), "stays", "other")
}

// TestReservationEnds: an address that is held for one who does not come back is
// free when its time is over, also over a crash; who waits for it gets it then.
func TestReservationEnds(t *testing.T) {
	p := start(t, settings{"addresses": settings{"releaseDelay": "4s"}})
	s := newSpace(t)
	address := ownAddress(200, 95)
	s.service(t, "first", asking("address", address))
	s.served(t, "first")
	s.delete(t, "first")
	s.gone(t, "first")
	p.kill(t)
	s.service(t, "second", asking("address", address))
	p.run(t)
	s.served(t, "second")
	s.await(t, "second", "has the address", at(address))
	var events []corev1.Event
	eventually(t, "the event tells that it waited", func() error {
		var err error
		if events, err = s.events(t.Context(), "second"); err != nil {
			return err
		}
		for _, e := range events {
			if e.Reason == "AddressHeld" {
				return nil
			}
		}
		return fmt.Errorf("none of %d events does", len(events))
	})
}

// TestSelectionNarrows: a Service that the next configuration does not take any
// more is cleaned up, not forgotten.
func TestSelectionNarrows(t *testing.T) {
	s := newSpace(t)
	p := prepare(t, nil)
	p.run(t)
	s.service(t, "lb", nil)
	s.served(t, "lb")
	p.stop(t)
	narrow := start(t, settings{"serviceSelector": "fairlead=yes"})
	s.await(t, "lb", "has nothing of ours", all2(guarded(), at()))
	s.unrecorded(t, "lb")
	narrow.stop(t)
	p.run(t)
	s.served(t, "lb")
	s.await(t, "lb", "is guarded", guarded(translate.Finalizer))
	p.stop(t)
	// At the end the namespace is cleared, which needs a controller.
	p.run(t)
	t.Cleanup(func() { p.stop(t) })
	s.delete(t, "lb")
	s.gone(t, "lb")
}

// TestAPIServerAway: without the API server traffic goes on, also after the
// lease could not be renewed, and what changed meanwhile is made up for.
func TestAPIServerAway(t *testing.T) {
	p := prepare(t, settings{"leaderElection": settings{"enabled": true, "leaseDuration": "3s", "renewDeadline": "2s", "retryPeriod": "500ms"}})
	line := newLine(t, &p.suite)
	p.run(t)
	t.Cleanup(func() { p.stop(t) })
	s := newSpace(t)
	first := serve(t, "first")
	s.service(t, "lb", nil)
	s.publish(t, "lb", first, ready())
	address := s.served(t, "lb")
	answers(t, endpoint(address, 8080), "first")
	load := poke(t, endpoint(address, 8080))
	line.cut()
	s.publish(t, "lb", serve(t, "second"), ready())
	s.service(t, "meanwhile", nil)
	p.logged(t, "lost the cluster")
	load.heard(t, 100)
	line.mend()
	s.served(t, "meanwhile")
	byNodes(t, endpoint(address, 8080), "first", "second")
	load.halt()
	if err := load.failed(); err != nil {
		t.Error(err)
	}
	s.await(t, "lb", "keeps its address", at(address))
}

// line is the way to the API server, which can be cut.
type line struct {
	to string

	mu    sync.Mutex
	whole bool
	conns []net.Conn
}

// newLine puts a line between the account's kubeconfig and the API server.
func newLine(t *testing.T, s *suite) *line {
	t.Helper()
	config, err := clientcmd.LoadFromFile(s.Account)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &line{whole: true}
	t.Cleanup(func() { _ = listener.Close(); l.cut() })
	for _, c := range config.Clusters {
		server, err := url.Parse(c.Server)
		if err != nil {
			t.Fatal(err)
		}
		l.to, server.Host = server.Host, listener.Addr().String()
		c.Server = server.String()
	}
	s.Account = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, s.Account); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(s.Account, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go l.carry(c)
		}
	}()
	return l
}

func (l *line) carry(c net.Conn) {
	up, err := net.Dial("tcp", l.to)
	if err != nil {
		_ = c.Close()
		return
	}
	if !l.join(c, up) {
		return
	}
	go func() {
		_, _ = io.Copy(up, c)
		_ = up.Close()
	}()
	_, _ = io.Copy(c, up)
	_ = c.Close()
}

func (l *line) join(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.whole {
		for _, c := range conns {
			_ = c.Close()
		}
		return false
	}
	l.conns = append(l.conns, conns...)
	return true
}

// cut ends all connections and lets none through.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.whole = false
	var errs []error
	for _, c := range l.conns {
		errs = append(errs, c.Close())
	}
	_ = errors.Join(errs...) // closed twice is closed
	l.conns = nil
}

func (l *line) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.whole = true
}
