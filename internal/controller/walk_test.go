package controller

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairlead-lb/fairlead/internal/kube/kubetest"
	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/translate"
)

// walked is the rig as a world to walk through.
type walked struct {
	*rig
	rand *rand.Rand
	// before and after count down to the next write that fails without and
	// with effect; less than zero: none.
	before, after int
}

func newWalked(r *rig, random *rand.Rand) *walked {
	w := &walked{rig: r, rand: random, before: -1, after: -1}
	countdown := func(n *int) func(kubetest.Write) error {
		return func(kubetest.Write) error {
			if *n < 0 {
				return nil
			}
			if *n--; *n == -1 {
				return errInjected
			}
			return nil
		}
	}
	r.hook(countdown(&w.before), countdown(&w.after))
	return w
}

func (w *walked) Put(_ context.Context, svc *corev1.Service) error {
	defer w.enqueue(keyFor(svc.Name))
	return w.cluster.Put(svc)
}

func (w *walked) Delete(_ context.Context, key model.Key) error {
	w.delete(key.Name)
	return nil
}

func (w *walked) SetEndpoints(_ context.Context, key model.Key, list []discoveryv1.EndpointSlice) error {
	w.cluster.SetSlices(key, list...)
	w.enqueue(key)
	return nil
}

func (w *walked) Disturb(_ context.Context, d kubetest.Disturbance) error {
	switch d {
	case kubetest.Restart:
		w.restart()
	case kubetest.Kill:
		w.fuse.left = w.rand.IntN(6)
	case kubetest.FailWrite:
		if w.rand.IntN(2) == 0 {
			w.before = w.rand.IntN(4)
		} else {
			w.after = w.rand.IntN(4)
		}
	case kubetest.FailBackend:
		w.backends["local"].FailAfter(w.rand.IntN(3), errInjected)
	case kubetest.Wait:
		w.pass(time.Duration(1+w.rand.IntN(20)) * time.Minute)
	}
	return nil
}

func (w *walked) Work(_ context.Context, passes int) error {
	w.work(passes)
	return nil
}

// calm lets nothing go wrong any more.
func (w *walked) calm() { w.fuse.left, w.before, w.after = -1, -1, -1 }

func node(name, address string) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}},
	}
}

// TestRandomLives walks through random lives with accidents. Whatever happened,
// the end is what a controller computes that starts afresh on the same
// objects, nothing is there that no Service wants, and looking again at
// everything writes nothing.
func TestRandomLives(t *testing.T) {
	const lives = 300
	for seed := range uint64(lives) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { randomLife(t, seed) })
	}
}

func randomLife(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 42))
	r := newRig(t, nil)
	if r.ephemeral = seed%2 == 0; r.ephemeral {
		// It is made again, as one that knows that it forgets.
		r.restart()
	}
	r.cluster.SetNodes(node("one", "192.0.2.1"), node("two", "192.0.2.2"))
	w := newWalked(r, random)
	walk := kubetest.Walk{
		Rand: random, Steps: 30, Pausing: !r.ephemeral,
		Classes:   []string{"", translate.ClassPrefix + "local", translate.ClassPrefix + "local", translate.ClassPrefix + "other", "example.org/lb"},
		Addresses: []string{"203.0.113.1", "203.0.113.2", lastFree, "203.0.113.77"},
	}
	if err := walk.Run(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	w.calm()
	r.settle()
	r.pass(time.Second)
	r.settle()
	checkEnd(t, r)
}

// checkEnd compares with a fresh start on the same objects.
func checkEnd(t *testing.T, r *rig) {
	t.Helper()
	end := r.text()
	if leaks := r.leaks(); len(leaks) > 0 {
		t.Errorf("leaked %v\n%s", leaks, end)
	}
	before := r.totalWrites()
	for _, k := range r.allKeys() {
		r.enqueue(k)
	}
	r.settle()
	if n := r.totalWrites() - before; n > 0 {
		t.Errorf("looking again made %d writes: %v\n%s", n, lastOf(r.cluster.Writes(), n), cmp.Diff(end, r.text()))
	}
	r.restart()
	r.settle()
	if diff := cmp.Diff(end, r.text()); diff != "" {
		t.Errorf("-as it ended +after a fresh start\n%s", diff)
	}
	if leaks := r.leaks(); len(leaks) > 0 {
		t.Errorf("leaked after a fresh start %v", leaks)
	}
}

// totalWrites counts writes to the cluster and the backends.
func (r *rig) totalWrites() int {
	n := len(r.cluster.Writes())
	for _, b := range r.backends {
		n += b.Writes()
	}
	return n
}
