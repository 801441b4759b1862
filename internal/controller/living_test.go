package controller

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairlead-lb/fairlead/internal/kube"
	"github.com/fairlead-lb/fairlead/internal/kube/kubetest"
	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/provider"
	"github.com/fairlead-lb/fairlead/internal/status"
)

// blind is a provider that cannot read its backend.
type blind struct{ provider.Provider }

// Observe fails.
func (blind) Observe(context.Context, model.Key) (model.Observed, error) {
	return model.Observed{}, errInjected
}

// TestRivalry: another manager that rewrites the ingress three times within a
// minute has it for ten minutes, and is named.
func TestRivalry(t *testing.T) {
	r := newRig(t, nil)
	r.put(lb("web"))
	r.settle()
	theirs := corev1.LoadBalancerIngress{IP: "192.0.2.77"}
	rewrite := func() {
		r.now = r.now.Add(5 * time.Second)
		r.cluster.PublishAs("occm", keyFor("web"), theirs)
		r.enqueue(keyFor("web"))
		r.settle()
	}
	published := func() string { return fmt.Sprint(kube.AddressesOf(r.cluster.Service(keyFor("web")))) }

	for i := range 2 {
		if rewrite(); published() != "[203.0.113.1]" {
			t.Fatalf("after rewrite %d it publishes %s, want ours again", i+1, published())
		}
	}
	rewrite()
	if published() != "[192.0.2.77]" {
		t.Fatalf("after the third rewrite it publishes %s, want theirs left alone", published())
	}
	c := kube.FindCondition(r.cluster.Service(keyFor("web")), status.Programmed)
	if c == nil || c.Reason != status.ReasonConflict || !strings.Contains(c.Message, `"occm"`) {
		t.Errorf("condition Programmed is %+v, want ConflictingController that names occm", c)
	}
	if after := r.after[keyFor("web")]; after <= 0 || after > rivalTruce {
		t.Errorf("it comes back after %v, want before the truce is over", after)
	}
	writes := len(r.cluster.Writes())
	r.enqueue(keyFor("web"))
	r.settle()
	if n := len(r.cluster.Writes()) - writes; n > 0 {
		t.Errorf("%d writes during the truce", n)
	}
	r.now = r.now.Add(rivalTruce)
	r.enqueue(keyFor("web"))
	r.settle()
	if published() != "[203.0.113.1]" {
		t.Errorf("after the truce it publishes %s, want ours", published())
	}
}

// TestSlowRewritesAreNoRivalry: what is overwritten now and then is put right.
func TestSlowRewritesAreNoRivalry(t *testing.T) {
	r := newRig(t, nil)
	r.put(lb("web"))
	r.settle()
	for i := range 6 {
		r.now = r.now.Add(31 * time.Second)
		r.cluster.PublishAs("kubectl", keyFor("web"))
		r.enqueue(keyFor("web"))
		r.settle()
		if len(kube.AddressesOf(r.cluster.Service(keyFor("web")))) != 1 {
			t.Fatalf("after rewrite %d the address is not published again", i+1)
		}
	}
}

// TestWarningIsRenewed: one warning, again after half an hour, and none when
// all is well.
func TestWarningIsRenewed(t *testing.T) {
	r := newRig(t, nil)
	warnings := func() int {
		r.enqueue(keyFor("web"))
		r.settle()
		n := 0
		for _, e := range r.cluster.Events() {
			if strings.HasPrefix(e, "Warning ") {
				n++
			}
		}
		return n
	}
	r.put(lb("web", annotated("address", "203.0.113.99")))
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{0, 1}, {time.Minute, 1}, {28 * time.Minute, 1}, {2 * time.Minute, 2}, {29 * time.Minute, 2}, {time.Minute, 3}} {
		r.now = r.now.Add(step.after)
		if got := warnings(); got != step.want {
			t.Fatalf("%v later: %d warnings, want %d", step.after, got, step.want)
		}
	}
	r.put(lb("web"))
	if got := warnings(); got != 3 {
		t.Errorf("%d warnings after it was mended, want no more", got)
	}
	r.put(lb("web", annotated("address", "203.0.113.99")))
	if got := warnings(); got != 4 {
		t.Errorf("%d warnings after it was broken again, want one more", got)
	}
}

// TestEventsOfALife: each change is told once, in upstream's words.
func TestEventsOfALife(t *testing.T) {
	r := newRig(t, nil)
	r.put(lb("web"))
	r.settle()
	r.enqueue(keyFor("web"))
	r.settle()
	r.delete("web")
	r.settle()
	want := []string{
		"Normal EnsuringLoadBalancer default/web: Ensuring load balancer",
		"Normal EnsuredLoadBalancer default/web: Ensured load balancer at 203.0.113.1",
		"Normal DeletingLoadBalancer default/web: Deleting load balancer",
		"Normal DeletedLoadBalancer default/web: Deleted load balancer",
	}
	if got := r.cluster.Events(); !slices.Equal(got, want) {
		t.Errorf("events:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestResyncIsSpread: every key comes back within the second half of the
// period, at a place of its own that a restart does not change.
func TestResyncIsSpread(t *testing.T) {
	c := New(Config{Resync: 10 * time.Minute})
	seen := map[time.Duration]bool{}
	for i := range 1000 {
		key := keyFor(fmt.Sprint("web-", i))
		got := c.resyncAfter(key)
		if got < 5*time.Minute || got >= 10*time.Minute {
			t.Fatalf("%s comes back after %v", key, got)
		}
		if again := New(Config{Resync: 10 * time.Minute}).resyncAfter(key); again != got {
			t.Fatalf("%s comes back after %v and %v", key, got, again)
		}
		seen[got.Truncate(3*time.Second)] = true
	}
	if len(seen) < 90 {
		t.Errorf("1000 keys come back within only %d of 100 parts of the half period", len(seen))
	}
	if got := New(Config{}).resyncAfter(keyFor("web")); got != 0 {
		t.Errorf("without a period it comes back after %v", got)
	}
}

// TestReady: ready when everything that was there has been looked at, or while
// standing by.
func TestReady(t *testing.T) {
	standby := false
	r := newRig(t, func(c *Config) { c.Standby = func() bool { return standby } })
	c := New(r.config)
	if c.Ready() == nil {
		t.Error("ready before the start")
	}
	standby = true
	if err := c.Ready(); err != nil {
		t.Errorf("standing by: %v", err)
	}
	r.put(lb("web"))
	r.put(lb("bad", annotated("address", "203.0.113.99")))
	r.put(lb("others", classed("example.org/lb")))
	r.restart()
	if err := r.controller.Ready(); err == nil || !strings.Contains(err.Error(), "2 services") {
		t.Errorf("before the first looks: %v, want 2 services", err)
	}
	r.cluster.Delete(keyFor("bad"))
	r.settle()
	if err := r.controller.Ready(); err != nil {
		t.Errorf("after the first looks: %v", err)
	}
}

// TestStartFails: what cannot be read at the start is an error, not an empty list.
func TestStartFails(t *testing.T) {
	r := newRig(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New(r.config).Start(ctx); err == nil || !errors.Is(err, context.Canceled) {
		t.Errorf("starting without the API: %v", err)
	}
}

// TestExpireReservations runs the task that ends reservations, on its own
// clock: an end that the API refuses is tried again, and who waits is woken.
func TestExpireReservations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *Config) { c.Now = time.Now })
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- r.controller.ExpireReservations(ctx) }()
		r.put(lb("old", annotated("address", "203.0.113.2")))
		r.settle()
		r.put(lb("new", annotated("address", "203.0.113.2")))
		r.settle()
		r.delete("old")
		r.settle()
		fails := 2
		r.hook(func(w kubetest.Write) error {
			if w.Kind == kubetest.DeleteReservation && fails > 0 {
				fails--
				return errInjected
			}
			return nil
		}, nil)

		time.Sleep(10*time.Minute - time.Second)
		synctest.Wait()
		if n := len(r.changes); n != 0 {
			t.Errorf("%d keys woken before the time", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(r.changes); n != 1 {
			t.Errorf("%d keys woken at the time, want the one that waits", n)
		}
		if list, err := r.cluster.Reservations(ctx); err != nil || len(list) != 1 {
			t.Errorf("after a refused end: %d reservations, %v", len(list), err)
		}
		time.Sleep(2 * expiryRetry)
		synctest.Wait()
		if list, err := r.cluster.Reservations(ctx); err != nil || len(list) != 0 {
			t.Errorf("after the next attempts: %d reservations, %v", len(list), err)
		}
		r.settle()
		if have := kube.AddressesOf(r.cluster.Service(keyFor("new"))); fmt.Sprint(have) != "[203.0.113.2]" {
			t.Errorf("who waited has %v", have)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("ending: %v", err)
		}
	})
}

// TestForgotten: nothing is remembered of keys that are gone.
func TestForgotten(t *testing.T) {
	r := newRig(t, nil)
	for i := range 20 {
		name := fmt.Sprint("web-", i)
		r.put(lb(name))
		r.settle()
		if i%2 == 0 {
			r.put(lb(name, clusterIP))
		} else {
			r.delete(name)
		}
		r.settle()
		r.pass(11 * time.Minute)
	}
	c, b := r.controller, r.controller.addresses
	if n := len(c.memory) + len(c.pending) + len(c.leftover); n > 0 {
		t.Errorf("%d entries of memory of nothing", n)
	}
	if n := len(b.waiters) + len(b.unwritten) + len(b.claimed) + len(b.moved); n > 0 {
		t.Errorf("%d entries in the address book of nothing", n)
	}
}

// TestLostRecord: without its record a Service keeps its address, by its status.
func TestLostRecord(t *testing.T) {
	r := newRig(t, nil)
	r.put(lb("a"))
	r.put(lb("web"))
	r.settle()
	r.delete("a")
	r.settle()
	r.pass(time.Hour)
	r.cluster.DropRecord(keyFor("web"))
	r.restart()
	r.put(lb("b"))
	r.settle()
	if got := kube.AddressesOf(r.cluster.Service(keyFor("web"))); fmt.Sprint(got) != "[203.0.113.2]" {
		t.Errorf("it has %v now, before 203.0.113.2", got)
	}
	if leaks := r.leaks(); len(leaks) > 0 {
		t.Errorf("leaked %v", leaks)
	}
}

// TestTwoRestoredWithOneAddress: the elder keeps the port, the other is told.
func TestTwoRestoredWithOneAddress(t *testing.T) {
	r := newRig(t, nil)
	r.put(lb("elder"))
	r.settle()
	r.now = r.now.Add(time.Minute)
	r.put(lb("younger"))
	r.settle()
	v, err := r.cluster.View(t.Context(), keyFor("younger"))
	if err != nil {
		t.Fatal(err)
	}
	spec := v.Record.Spec
	spec.Addresses = []string{"203.0.113.1"}
	if err := r.cluster.PutRecord(t.Context(), v.Record, spec); err != nil {
		t.Fatal(err)
	}
	r.restart()
	r.settle()
	if got := r.controller.addresses.holds(keyFor("elder")); !slices.Equal(got, []netip.Addr{netip.MustParseAddr("203.0.113.1")}) {
		t.Errorf("the elder has %v", got)
	}
	if c := kube.FindCondition(r.cluster.Service(keyFor("younger")), status.Programmed); c == nil || c.Status != "False" {
		t.Errorf("the younger says %+v", c)
	}
}
