package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fairlead-lb/fairlead/api/v1alpha1"
	"github.com/fairlead-lb/fairlead/internal/model"
)

func TestNodeChanges(t *testing.T) {
	base := func() *corev1.Node {
		return &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "one", ResourceVersion: "1", Labels: map[string]string{"a": "b"}},
			Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k", Effect: "NoSchedule"}}},
			Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}},
		}
	}
	cases := map[string]struct {
		reason string
		change func(*corev1.Node)
		want   bool
	}{
		"Nothing": {"a resync", func(*corev1.Node) {}, false},
		"Heartbeat": {"a heartbeat", func(n *corev1.Node) {
			n.ResourceVersion = "2"
			n.Status.Conditions = []corev1.NodeCondition{{Type: "Ready"}}
		}, false},
		"Capacity":  {"what it can run", func(n *corev1.Node) { n.Status.Capacity = corev1.ResourceList{"cpu": {}} }, false},
		"TaintTime": {"when a taint was set", func(n *corev1.Node) { n.Spec.Taints[0].TimeAdded = new(metav1.Now()) }, false},
		"Label":     {"a label", func(n *corev1.Node) { n.Labels["c"] = "d" }, true},
		"Address":   {"an address", func(n *corev1.Node) { n.Status.Addresses[0].Address = "192.0.2.2" }, true},
		"Order":     {"the order of addresses", func(n *corev1.Node) { n.Status.Addresses = append([]corev1.NodeAddress{{}}, n.Status.Addresses...) }, true},
		"Taint": {"a taint", func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "ToBeDeletedByClusterAutoscaler"})
		}, true},
		"TaintGone": {"a taint less", func(n *corev1.Node) { n.Spec.Taints = nil }, true},
		"Provider":  {"its instance", func(n *corev1.Node) { n.Spec.ProviderID = "x" }, true},
		"Deleted":   {"its deletion", func(n *corev1.Node) { n.DeletionTimestamp = new(metav1.Now()) }, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			now := base()
			tc.change(now)
			if got := nodeChanges().Update(event.UpdateEvent{ObjectOld: base(), ObjectNew: now}); got != tc.want {
				t.Errorf("%s: passes %v, want %v", tc.reason, got, tc.want)
			}
		})
	}
	if p := nodeChanges(); !p.Create(event.CreateEvent{Object: base()}) || !p.Delete(event.DeleteEvent{Object: base()}) {
		t.Error("nodes that come and go are not passed")
	}
}

func TestTrimNode(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one", Labels: map[string]string{"a": "b"}, ManagedFields: []metav1.ManagedFieldsEntry{{}}}}
	node.Status.Images = []corev1.ContainerImage{{}}
	node.Status.Addresses = []corev1.NodeAddress{{Address: "192.0.2.1"}}
	out, err := trimNode(node)
	if err != nil {
		t.Fatal(err)
	}
	got, ok := out.(*corev1.Node)
	if !ok || got.Status.Images != nil || got.ManagedFields != nil || len(got.Status.Addresses) != 1 || got.Labels["a"] != "b" {
		t.Errorf("trimmed to %+v", out)
	}
	if other, err := trimNode("x"); err != nil || other != any("x") {
		t.Errorf("what is no node: %v, %v", other, err)
	}
}

// TestReconciler: what moved on is read again soon and counts as no failure;
// nothing is reconciled before the start.
func TestReconciler(t *testing.T) {
	c := clientOf(t, interceptor.Funcs{})
	failure := errors.New("no")
	cases := map[string]struct {
		reason string
		after  time.Duration
		err    error
		want   time.Duration
		fails  bool
	}{
		"Fine":     {reason: "it comes back when it said", after: time.Minute, want: time.Minute},
		"MovedOn":  {reason: "it is read again soon", err: fmt.Errorf("x: %w", ErrMovedOn), want: firstRetry},
		"Failed":   {reason: "the queue backs off", err: failure, fails: true},
		"Settled":  {reason: "it comes back when something changes"},
		"Combined": {reason: "a failure beside it is seen at the next look", err: errors.Join(failure, ErrMovedOn), want: firstRetry},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			started := make(chan struct{})
			close(started)
			var key model.Key
			r := c.reconciler(Loop{Reconcile: func(_ context.Context, k model.Key) (time.Duration, error) {
				key = k
				return tc.after, tc.err
			}}, started)
			got, err := r.Reconcile(t.Context(), request("shop", "web"))
			if got.RequeueAfter != tc.want || (err != nil) != tc.fails {
				t.Errorf("%s: %+v, %v", tc.reason, got, err)
			}
			if key != (model.Key{Namespace: "shop", Name: "web"}) {
				t.Errorf("key %v", key)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := c.reconciler(Loop{Reconcile: func(context.Context, model.Key) (time.Duration, error) {
		t.Error("reconciled before the start")
		return 0, nil
	}}, make(chan struct{}))
	if got, err := r.Reconcile(ctx, request("shop", "web")); err != nil || got != (reconcile.Result{}) {
		t.Errorf("ended before the start: %+v, %v", got, err)
	}
}

func keysOf(requests []reconcile.Request) []string {
	var out []string
	for _, r := range requests {
		out = append(out, r.String())
	}
	slices.Sort(out)
	return out
}

// TestWhoIsEnqueued: which keys the changes of other objects enqueue.
func TestWhoIsEnqueued(t *testing.T) {
	other := balanced(func(s *corev1.Service) { s.Namespace, s.ResourceVersion = "blog", "" })
	plain := balanced(func(s *corev1.Service) { s.Name, s.ResourceVersion, s.Spec.Type = "plain", "", "ClusterIP" })
	c := clientOf(t, interceptor.Funcs{}, balanced(func(s *corev1.Service) { s.ResourceVersion = "" }), other, plain)
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-x", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}}
	record := &v1alpha1.ServiceRecord{Spec: spec("uid-1")}
	ctx := t.Context()
	for name, tc := range map[string]struct{ got, want []string }{
		"Slice":       {keysOf(serviceOfSlice(ctx, slice)), []string{"shop/web"}},
		"OrphanSlice": {keysOf(serviceOfSlice(ctx, &discoveryv1.EndpointSlice{})), nil},
		"Record":      {keysOf(serviceOfRecord(ctx, record)), []string{"shop/web"}},
		"NoRecord":    {keysOf(serviceOfRecord(ctx, slice)), nil},
		"Node":        {keysOf(c.allServices(ctx, &corev1.Node{})), []string{"blog/web", "shop/web"}},
		"Namespace":   {keysOf(c.servicesOfNamespace(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "blog"}})), []string{"blog/web"}},
	} {
		if !slices.Equal(tc.got, tc.want) {
			t.Errorf("%s enqueues %v, want %v", name, tc.got, tc.want)
		}
	}
}

// TestView: what is read for whom.
func TestView(t *testing.T) {
	fresh := func(edit func(*corev1.Service)) *corev1.Service {
		return balanced(func(s *corev1.Service) { s.ResourceVersion = "" }, edit)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "one"}}
	labelled := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"lb": "yes"}}}
	record := &v1alpha1.ServiceRecord{ObjectMeta: metav1.ObjectMeta{Namespace: "fairlead-system", Name: "shop.gone"}, Spec: spec("uid-9")}
	cases := map[string]struct {
		reason            string
		objects           []client.Object
		services, spaces  string
		key               string
		there, selected   bool
		recorded, hasNode bool
	}{
		"All":               {reason: "a load balancer with nodes", objects: []client.Object{fresh(func(*corev1.Service) {}), node}, key: "web", there: true, selected: true, hasNode: true},
		"Plain":             {reason: "another type needs no nodes", objects: []client.Object{fresh(func(s *corev1.Service) { s.Spec.Type = "ClusterIP" }), node}, key: "web", there: true},
		"Gone":              {reason: "a record without its Service", objects: []client.Object{record}, key: "gone", recorded: true},
		"Nothing":           {reason: "nothing at all", key: "web"},
		"Deselected":        {reason: "the selector leaves it out", objects: []client.Object{fresh(func(*corev1.Service) {}), node}, services: "lb=yes", key: "web", there: true},
		"Selected":          {reason: "the selector takes it", objects: []client.Object{fresh(func(s *corev1.Service) { s.Labels = map[string]string{"lb": "yes"} }), node}, services: "lb=yes", key: "web", there: true, selected: true, hasNode: true},
		"NamespaceSelected": {reason: "its namespace is taken", objects: []client.Object{fresh(func(*corev1.Service) {}), node, labelled}, spaces: "lb=yes", key: "web", there: true, selected: true, hasNode: true},
		"NamespaceNot":      {reason: "its namespace is not", objects: []client.Object{fresh(func(*corev1.Service) {}), labelled}, spaces: "lb=no", key: "web", there: true},
		"NamespaceGone":     {reason: "its namespace is gone", objects: []client.Object{fresh(func(*corev1.Service) {})}, spaces: "lb=yes", key: "web", there: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := indexed(t, tc.objects...)
			var err error
			if c.options.ServiceSelector, err = ParseSelector(tc.services); err != nil {
				t.Fatal(err)
			}
			if c.options.NamespaceSelector, err = ParseSelector(tc.spaces); err != nil {
				t.Fatal(err)
			}
			v, err := c.View(t.Context(), model.Key{Namespace: "shop", Name: tc.key})
			if err != nil {
				t.Fatal(err)
			}
			if (v.Service != nil) != tc.there || v.Selected != tc.selected || (v.Record != nil) != tc.recorded || (len(v.Nodes) > 0) != tc.hasNode {
				t.Errorf("%s: view %+v", tc.reason, v)
			}
		})
	}
}

// TestServices: every load balancer, and what carries the finalizer, sorted.
func TestServices(t *testing.T) {
	object := func(name string, edit func(*corev1.Service)) client.Object {
		return balanced(func(s *corev1.Service) { s.Name, s.ResourceVersion = name, "" }, edit)
	}
	c := indexed(t,
		object("b", func(*corev1.Service) {}),
		object("a", func(s *corev1.Service) {
			s.Spec.Type, s.Finalizers = "ClusterIP", []string{"fairlead.dev/load-balancer"}
		}),
		object("c", func(s *corev1.Service) { s.Spec.Type = "ClusterIP" }),
	)
	views, err := c.Services(t.Context(), "fairlead.dev/load-balancer")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range views {
		got = append(got, v.Service.Name)
	}
	if !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("services %v, want a and b", got)
	}
}

func TestParseSelector(t *testing.T) {
	if s, err := ParseSelector(""); s != nil || err != nil {
		t.Errorf("an empty text: %v, %v; want nil, which takes all", s, err)
	}
	if _, err := ParseSelector("a in ("); err == nil {
		t.Error("nonsense is taken")
	}
}

func TestRunUntil(t *testing.T) {
	fault := errors.New("a fault")
	cases := map[string]struct {
		reason string
		begun  bool
		heeds  bool
		fails  error
		want   error
	}{
		"Refused":      {"first lists that never come do not keep the process", false, false, nil, nil},
		"Ended":        {"what has begun is waited for", true, true, nil, nil},
		"EndedBadly":   {"and what it says at its end is told", true, true, fault, fault},
		"EndedItself":  {"an error before the first lists is told", false, false, fault, fault},
		"EndedAtLeave": {"who ends when asked to is no fault before the first lists either", false, true, nil, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			begun, left := make(chan struct{}), make(chan struct{})
			t.Cleanup(func() { close(left) })
			err := runUntil(ctx, func(ctx context.Context) error {
				switch {
				case tc.begun:
					close(begun)
					cancel()
				case tc.fails == nil:
					cancel()
				default:
					return tc.fails
				}
				if !tc.heeds {
					<-left
				}
				<-ctx.Done()
				return tc.fails
			}, begun)
			if !errors.Is(err, tc.want) {
				t.Errorf("%s: got %v, want %v", tc.reason, err, tc.want)
			}
		})
	}
}
