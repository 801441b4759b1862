package kubetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairlead-lb/fairlead/api/v1alpha1"
	"github.com/fairlead-lb/fairlead/internal/kube"
	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/status"
)

func web() model.Key { return model.Key{Namespace: "shop", Name: "web"} }

func manifest(edits ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{"example.org/user": "x"}},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	}
	for _, e := range edits {
		e(svc)
	}
	return svc
}

func clusterIP(svc *corev1.Service) { svc.Spec.Type = corev1.ServiceTypeClusterIP }

func class(name string) func(*corev1.Service) {
	return func(svc *corev1.Service) { svc.Spec.LoadBalancerClass = &name }
}

// started returns a cluster with one Service, and the Service as it was read.
func started(t *testing.T) (*Cluster, *corev1.Service) {
	t.Helper()
	c := New(func() time.Time { return time.Unix(1000, 0) })
	put(t, c, manifest())
	return c, c.Service(web())
}

func put(t *testing.T, c *Cluster, svc *corev1.Service) {
	t.Helper()
	if err := c.Put(svc); err != nil {
		t.Fatal(err)
	}
}

func said(message string) kube.Said {
	return kube.Said{
		Annotations: map[string]string{"fairlead.dev/observed": "abc"},
		Report: status.Report{
			Ingress:    []status.Ingress{{Hostname: "web.example.org"}},
			Conditions: []status.Condition{{Type: status.Accepted, True: true, Reason: "Accepted", Message: message}},
		},
	}
}

func say(t *testing.T, c *Cluster, svc *corev1.Service, message string) {
	t.Helper()
	if _, err := c.ApplyStatus(t.Context(), svc, said(message), time.Unix(2000, 0)); err != nil {
		t.Fatal(err)
	}
}

// TestOldViewsAreRefused: each write on a view that is not current says so.
func TestOldViewsAreRefused(t *testing.T) {
	guard := []string{"example.org/guard"}
	replaced := func(t *testing.T, c *Cluster) {
		c.Delete(web())
		put(t, c, manifest())
	}
	finalizers := func(t *testing.T, c *Cluster, svc *corev1.Service) error {
		return c.SetFinalizers(t.Context(), svc, guard)
	}
	apply := func(t *testing.T, c *Cluster, svc *corev1.Service) error {
		_, err := c.ApplyStatus(t.Context(), svc, said("x"), time.Unix(0, 0))
		return err
	}
	cases := map[string]struct {
		reason string
		change func(*testing.T, *Cluster)
		write  func(*testing.T, *Cluster, *corev1.Service) error
		fine   bool
	}{
		"FinalizersCurrent":  {"nothing has changed", func(*testing.T, *Cluster) {}, finalizers, true},
		"FinalizersChanged":  {"the resourceVersion has changed", func(t *testing.T, c *Cluster) { put(t, c, manifest()) }, finalizers, false},
		"FinalizersReplaced": {"another object of the name", replaced, finalizers, false},
		"FinalizersGone":     {"no object of the name", func(_ *testing.T, c *Cluster) { c.Delete(web()) }, finalizers, false},
		"ApplyChanged":       {"an apply holds no resourceVersion", func(t *testing.T, c *Cluster) { put(t, c, manifest()) }, apply, true},
		"ApplyReplaced":      {"but the uid", replaced, apply, false},
		"ApplyGone":          {"no object of the name", func(_ *testing.T, c *Cluster) { c.Delete(web()) }, apply, false},
		"ApplyOtherType":     {"an ingress on what is no load balancer any more", func(t *testing.T, c *Cluster) { put(t, c, manifest(clusterIP)) }, apply, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c, svc := started(t)
			tc.change(t, c)
			err := tc.write(t, c, svc)
			if (err == nil) != tc.fine || (err != nil && !errors.Is(err, kube.ErrMovedOn)) {
				t.Errorf("%s: %v", tc.reason, err)
			}
		})
	}
}

// TestDeletionWaits: a Service with a finalizer stays until the last one is
// gone, and gets no new one.
func TestDeletionWaits(t *testing.T) {
	c, svc := started(t)
	if err := c.SetFinalizers(t.Context(), svc, []string{"a", "b"}); err != nil {
		t.Fatal(err)
	}
	c.Delete(web())
	svc = c.Service(web())
	if svc == nil || svc.DeletionTimestamp == nil {
		t.Fatalf("being deleted: %+v", svc)
	}
	if err := c.SetFinalizers(t.Context(), svc, []string{"a", "b", "c"}); !errors.Is(err, kube.ErrMovedOn) {
		t.Errorf("a finalizer more: %v, want a refusal", err)
	}
	if err := c.Put(manifest()); err == nil {
		t.Error("what is being deleted was changed by a manifest")
	}
	if err := c.SetFinalizers(t.Context(), svc, []string{"b"}); err != nil || c.Service(web()) == nil {
		t.Errorf("one finalizer less: %v, and it is gone", err)
	}
	if err := c.SetFinalizers(t.Context(), svc, nil); err != nil || c.Service(web()) != nil {
		t.Errorf("the last finalizer: %v, and it is there", err)
	}
}

// TestOwnership: what is applied is ours; what is left out goes, unless others
// own it; what others wrote stays.
func TestOwnership(t *testing.T) {
	c, svc := started(t)
	c.Change(web(), func(s *corev1.Service) {
		s.Status.Conditions = []metav1.Condition{{Type: "example.org/Theirs", Status: "True"}}
	})
	say(t, c, svc, "one")
	writes := len(c.Writes())
	say(t, c, c.Service(web()), "one")
	if n := len(c.Writes()) - writes; n != 0 {
		t.Errorf("saying the same again made %d writes", n)
	}
	put(t, c, manifest())
	if got := c.Service(web()).Annotations; got["fairlead.dev/observed"] != "abc" || got["example.org/user"] != "x" {
		t.Errorf("after a manifest: annotations %v, want ours kept beside the user's", got)
	}
	c.PublishAs("occm", web(), corev1.LoadBalancerIngress{IP: "192.0.2.1"})
	if got := kube.RivalOf(c.Service(web())); got != "occm" {
		t.Errorf("the rival is %q, want occm", got)
	}
	if err := c.ClearStatus(t.Context(), c.Service(web())); err != nil {
		t.Fatal(err)
	}
	got := c.Service(web())
	if len(got.Status.Conditions) != 1 || len(got.Status.LoadBalancer.Ingress) != 1 || got.Annotations["fairlead.dev/observed"] != "" {
		t.Errorf("after clearing: %+v and annotations %v, want only what others wrote", got.Status, got.Annotations)
	}
	writes = len(c.Writes())
	if err := c.ClearStatus(t.Context(), got); err != nil || len(c.Writes()) != writes {
		t.Errorf("clearing again: %v, and it wrote", err)
	}
	say(t, c, got, "two")
	if err := c.ClearStatus(t.Context(), c.Service(web())); err != nil {
		t.Fatal(err)
	}
	if left := c.Service(web()).Status.LoadBalancer.Ingress; len(left) != 0 {
		t.Errorf("an ingress of ours alone stays: %v", left)
	}
}

// TestTypeWipesStatus: the API server empties the ingress of what is no load
// balancer any more, and takes its class; a class cannot be changed before.
func TestTypeWipesStatus(t *testing.T) {
	c, _ := started(t)
	if err := c.Put(manifest(class("example.org/lb"))); err == nil {
		t.Error("the class of a load balancer was changed")
	}
	say(t, c, c.Service(web()), "one")
	put(t, c, manifest(clusterIP, class("x")))
	got := c.Service(web())
	if len(got.Status.LoadBalancer.Ingress) != 0 || got.Spec.LoadBalancerClass != nil || len(got.Status.Conditions) != 1 {
		t.Errorf("after the change of type: %+v, class %v", got.Status, got.Spec.LoadBalancerClass)
	}
	put(t, c, manifest(class("example.org/lb")))
}

// TestHooks: a write fails without effect, or with effect and without an answer.
func TestHooks(t *testing.T) {
	failure := errors.New("no")
	for name, tc := range map[string]struct {
		before, after error
		there         bool
	}{"Before": {failure, nil, false}, "After": {nil, failure, true}, "Neither": {nil, nil, true}} {
		t.Run(name, func(t *testing.T) {
			c, _ := started(t)
			c.SetHooks(func(Write) error { return tc.before }, func(Write) error { return tc.after })
			err := c.PutRecord(t.Context(), nil, record())
			if (err != nil) != (tc.before != nil || tc.after != nil) || (err != nil && !errors.Is(err, failure)) {
				t.Errorf("answer %v", err)
			}
			list, err := c.Records(t.Context())
			if err != nil || (len(list) == 1) != tc.there {
				t.Errorf("%d records, %v; want it there: %v", len(list), err, tc.there)
			}
			if got := c.Writes(); !slices.Equal(got, []Write{{PutRecord, "shop.web"}}) {
				t.Errorf("writes %v", got)
			}
		})
	}
}

func record() v1alpha1.ServiceRecordSpec {
	return v1alpha1.ServiceRecordSpec{ServiceRef: v1alpha1.ServiceRef{Namespace: "shop", Name: "web", UID: "u"}, Provider: "local"}
}

// TestRecordsAreGuarded: by resourceVersion, existence and uid.
func TestRecordsAreGuarded(t *testing.T) {
	c, _ := started(t)
	ctx := t.Context()
	if err := c.PutRecord(ctx, nil, record()); err != nil {
		t.Fatal(err)
	}
	v, err := c.View(ctx, web())
	if err != nil || v.Record == nil {
		t.Fatalf("view %+v, %v", v, err)
	}
	changed := record()
	changed.Pool = "p"
	if err := c.PutRecord(ctx, nil, changed); !errors.Is(err, kube.ErrMovedOn) {
		t.Errorf("creating one that exists: %v", err)
	}
	if err := c.PutRecord(ctx, v.Record, changed); err != nil {
		t.Fatal(err)
	}
	changed.Pool = "q"
	if err := c.PutRecord(ctx, v.Record, changed); !errors.Is(err, kube.ErrMovedOn) {
		t.Errorf("updating an old view: %v", err)
	}
	if err := c.DeleteRecord(ctx, v.Record); err != nil {
		t.Fatal(err)
	}
	if err := c.PutRecord(ctx, v.Record, changed); !errors.Is(err, kube.ErrMovedOn) {
		t.Errorf("updating what is gone: %v", err)
	}
	if err := c.PutRecord(ctx, nil, record()); err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteRecord(ctx, v.Record); !errors.Is(err, kube.ErrMovedOn) {
		t.Errorf("deleting another one of the name: %v", err)
	}
}

// TestNothingAfterTheEnd: a context that has ended reads and writes nothing.
func TestNothingAfterTheEnd(t *testing.T) {
	c, svc := started(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, view := c.View(ctx, web())
	_, apply := c.ApplyStatus(ctx, svc, said("x"), time.Unix(0, 0))
	for name, err := range map[string]error{"View": view, "ApplyStatus": apply, "DeleteReservation": c.DeleteReservation(ctx, "x")} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(c.Writes()); n != 0 {
		t.Errorf("%d writes", n)
	}
}

// TestText: equal states have equal texts, and each part of the state shows.
func TestText(t *testing.T) {
	c, svc := started(t)
	say(t, c, svc, "Understood.")
	if err := c.PutRecord(t.Context(), nil, record()); err != nil {
		t.Fatal(err)
	}
	until := metav1.NewTime(time.Unix(5000, 0))
	if err := c.PutReservation(t.Context(), "203.0.113.7", v1alpha1.AddressReservationSpec{For: v1alpha1.ReservedFor{Namespace: "shop", Name: "old"}, Since: until, Until: until}); err != nil {
		t.Fatal(err)
	}
	want := `service shop/web uid uid-1 type LoadBalancer class -
  finalizers []
  annotation example.org/user=x
  annotation fairlead.dev/observed=abc
  ingress web.example.org
  condition fairlead.dev/Accepted=True Accepted: Understood.
record shop.web uid u provider local class "" addresses [] pool "" ports [] share {  } accepted map[]
reservation 203.0.113.7 for shop/old until 1970-01-01T01:23:20Z
`
	if got := c.Text(); got != want {
		t.Errorf("text:\n%s\nwant:\n%s", got, want)
	}
}

// TestCopies: what is read belongs to the reader.
func TestCopies(t *testing.T) {
	c, _ := started(t)
	c.SetSlices(web(), discoveryv1.EndpointSlice{Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}}})
	c.SetNodes(corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}})
	v, err := c.View(t.Context(), web())
	if err != nil {
		t.Fatal(err)
	}
	before := c.Text()
	v.Service.Annotations["x"], v.Slices[0].Endpoints[0].Addresses[0], v.Nodes[0].Name = "y", "10.0.0.9", "two"
	again, err := c.View(t.Context(), web())
	if err != nil || again.Slices[0].Endpoints[0].Addresses[0] != "10.0.0.1" || again.Nodes[0].Name != "one" || c.Text() != before {
		t.Errorf("a reader changed the cluster: %+v, %v", again, err)
	}
}

// wishes is a world that only notes what happens in it.
type wishes struct{ list []string }

func (w *wishes) note(s string) error {
	w.list = append(w.list, s)
	return nil
}

func (w *wishes) Put(_ context.Context, svc *corev1.Service) error {
	return w.note("put " + svc.Name + " " + string(svc.Spec.Type))
}

func (w *wishes) Delete(_ context.Context, key model.Key) error { return w.note("delete " + key.Name) }

func (w *wishes) SetEndpoints(_ context.Context, key model.Key, _ []discoveryv1.EndpointSlice) error {
	return w.note("endpoints " + key.Name)
}

func (w *wishes) Disturb(_ context.Context, d Disturbance) error { return w.note(string(d)) }

func (w *wishes) Work(context.Context, int) error { return nil }

// TestWalkRepeats: a seed makes one walk, and a long one has everything in it.
func TestWalkRepeats(t *testing.T) {
	walk := func() []string {
		var w wishes
		err := Walk{Rand: rand.New(rand.NewPCG(1, 2)), Steps: 500, Classes: []string{"", "a"}, Addresses: []string{"203.0.113.1"}}.Run(t.Context(), &w)
		if err != nil {
			t.Fatal(err)
		}
		return w.list
	}
	first := walk()
	if !slices.Equal(first, walk()) {
		t.Error("two walks of one seed differ")
	}
	all := strings.Join(first, "\n")
	for _, s := range []string{"put a LoadBalancer", "put d ClusterIP", "delete b", "endpoints c", string(Restart), string(Kill), string(FailWrite), string(FailBackend), string(Wait)} {
		if !strings.Contains(all, s) {
			t.Errorf("500 steps without %q", s)
		}
	}
}
