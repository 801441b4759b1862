//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestCrash is about a controller that is killed under load and started again,
// E-31 with the harshest kind of upgrade: the same addresses serve, and at no
// time was another one published. What changed meanwhile is made up for.
func TestCrash(t *testing.T) {
	p := start(t, settings{"defaultProvider": "local"})
	s := newSpace(t)
	names := []string{"a", "b", "c"}
	addresses := map[string]string{}
	for _, name := range names {
		s.service(t, name, classless)
		s.publish(t, name, serve(t, name), ready())
		addresses[name] = s.served(t, name)
	}
	moved := s.watchAddresses(t, addresses)
	for round := range 3 {
		loads := map[string]*poker{}
		for _, name := range names {
			eventually(t, name+" answers", func() error {
				_, _, err := ask(endpoint(addresses[name], 8080), "")
				return err
			})
			loads[name] = poke(t, endpoint(addresses[name], 8080))
		}
		for _, name := range names {
			loads[name].heard(t, 20)
			if err := loads[name].failed(); err != nil {
				t.Error(err)
			}
		}
		p.kill(t) // under load
		next := serve(t, fmt.Sprintf("b-%d", round))
		s.publish(t, "b", next, ready())
		s.change(t, "c", asking("connection-limit", fmt.Sprint(1000+round)))
		p.run(t)
		for _, name := range names {
			loads[name].heard(t, 20)
			loads[name].halt()
		}
		eventually(t, "the pod that came meanwhile answers", func() error {
			if name, _, err := ask(endpoint(addresses["b"], 8080), ""); err != nil || name != next.name {
				return errors.Join(err, fmt.Errorf("%q answers", name))
			}
			return nil
		})
	}
	for _, name := range names {
		if got := s.served(t, name); got != addresses[name] {
			t.Errorf("%s had %s and has %s", name, addresses[name], got)
		}
	}
	if err := moved(); err != nil {
		t.Error(err)
	}
}

// TestCrashWhileCreating kills the controller again and again while Services
// come and go. In the end each one that is there is served, at an address of
// its own, and nothing is remembered of those that went.
func TestCrashWhileCreating(t *testing.T) {
	p := start(t, nil)
	s := newSpace(t)
	var kept, gone []string
	for round := range 5 {
		for i := range 8 {
			name := fmt.Sprintf("lb-%d-%d", round, i)
			s.service(t, name, nil)
			kept = append(kept, name)
		}
		s.awaitAny(t, kept)
		p.kill(t)
		for range 4 {
			s.delete(t, kept[0])
			gone, kept = append(gone, kept[0]), kept[1:]
		}
		p.launch(t)
	}
	owners := map[string]string{}
	for _, name := range kept {
		address := s.served(t, name)
		if other, twice := owners[address]; twice {
			t.Errorf("%s and %s both have %s", other, name, address)
		}
		owners[address] = name
	}
	for _, name := range gone {
		s.gone(t, name)
		s.unrecorded(t, name)
	}
}

// awaitAny waits until the controller has begun with one of several Services.
func (s space) awaitAny(t *testing.T, names []string) {
	t.Helper()
	eventually(t, "the controller has begun", func() error {
		svc, err := s.get(t.Context(), names[len(names)-1])
		if err == nil && len(svc.Finalizers) == 0 {
			err = errors.New("no finalizer yet")
		}
		return err
	})
}

// watchAddresses watches the Services, and returns what tells whether any of
// them published anything but its address since.
func (s space) watchAddresses(t *testing.T, addresses map[string]string) func() error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	watch, err := s.client.Watch(ctx, &corev1.ServiceList{}, client.InNamespace(s.name))
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	done := make(chan struct{})
	var faults []error
	go func() {
		defer close(done)
		for e := range watch.ResultChan() {
			svc, ok := e.Object.(*corev1.Service)
			if ok && !slices.Equal(published(svc), []string{addresses[svc.Name]}) {
				faults = append(faults, fmt.Errorf("%s published %v", svc.Name, published(svc)))
			}
		}
	}()
	return func() error {
		cancel()
		watch.Stop()
		<-done
		return errors.Join(faults...)
	}
}
