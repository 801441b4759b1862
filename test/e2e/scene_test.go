//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairlead-lb/fairlead/api/annotation"
	"github.com/fairlead-lb/fairlead/internal/kube"
	"github.com/fairlead-lb/fairlead/internal/status"
	"github.com/fairlead-lb/fairlead/internal/translate"
)

// patience is how long anything may take. It is far beyond what is promised
// (creation 5 s, mending 1 s), so that a busy machine fails no test; that
// nothing but an event leads to an outcome is assured by a resync of an hour.
const patience = 40 * time.Second

// class is the load balancer class of the provider that is tried.
const class = "fairlead.dev/local"

// eventually tries until there is no error, or fails the test with the last one.
func eventually(t *testing.T, what string, try func() error) {
	t.Helper()
	began := time.Now()
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		if time.Since(began) > patience {
			t.Fatalf("waited %v in vain for this: %s; last: %v", patience, what, err)
		}
		<-tick.C
	}
}

// space is a namespace of the test's own.
type space struct {
	suite  suite
	client client.WithWatch
	name   string
}

// newSpace makes a namespace. At the end of the test its Services are deleted,
// which must not hang as long as a controller runs, and the namespace.
func newSpace(t *testing.T) space {
	t.Helper()
	s := space{suite: theSuite(t)}
	s.client = clientOf(t, s.suite.Admin)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-", Labels: map[string]string{"fairlead.dev/e2e": "yes"}}}
	if err := s.client.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	s.name = ns.Name
	t.Cleanup(func() { s.clear(t, ns) })
	return s
}

func clientOf(t *testing.T, kubeconfig string) client.WithWatch {
	t.Helper()
	config, err := kube.LoadConfig(kubeconfig, "")
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (s space) clear(t *testing.T, ns *corev1.Namespace) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if t.Failed() {
		s.describe(ctx, t)
	}
	if err := s.client.DeleteAllOf(ctx, &corev1.Service{}, client.InNamespace(s.name)); err != nil {
		t.Error(err)
	}
	defer func() { // also when the wait below ends the test
		if err := s.client.Delete(context.WithoutCancel(ctx), ns); err != nil {
			t.Error(err)
		}
	}()
	eventually(t, "all Services are gone", func() error {
		var left corev1.ServiceList
		if err := s.client.List(ctx, &left, client.InNamespace(s.name)); err != nil || len(left.Items) == 0 {
			return err
		}
		return fmt.Errorf("%d are left, one is %s with finalizers %v", len(left.Items), left.Items[0].Name, left.Items[0].Finalizers)
	})
}

// describe logs what a user would look at.
func (s space) describe(ctx context.Context, t *testing.T) {
	var services corev1.ServiceList
	if err := s.client.List(ctx, &services, client.InNamespace(s.name)); err != nil {
		t.Error(err)
	}
	for _, svc := range services.Items[:min(3, len(services.Items))] {
		t.Logf("service %s: finalizers %v, annotations %v, ingress %+v", svc.Name, svc.Finalizers, svc.Annotations, svc.Status.LoadBalancer.Ingress)
		for _, c := range svc.Status.Conditions {
			t.Logf("  condition %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	events, err := s.events(ctx, "")
	if err != nil {
		t.Error(err)
	}
	for _, e := range events[:min(12, len(events))] {
		t.Logf("  event %s %s %s ×%d: %s", e.InvolvedObject.Name, e.Type, e.Reason, e.Count, e.Message)
	}
}

// service creates a Service: of our class, with TCP port 8080 and no selector,
// unless edit says otherwise.
func (s space) service(t *testing.T, name string, edit func(*corev1.Service)) *corev1.Service {
	t.Helper()
	svc := s.draft(name, edit)
	if err := s.client.Create(t.Context(), svc); err != nil {
		t.Fatal(err)
	}
	return svc
}

func (s space) draft(name string, edit func(*corev1.Service)) *corev1.Service {
	loadBalancerClass := class
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: &loadBalancerClass,
			AllocateLoadBalancerNodePorts: new(bool),
			Ports:                         []corev1.ServicePort{port("main", corev1.ProtocolTCP, 8080)},
		},
	}
	if edit != nil {
		edit(svc)
	}
	return svc
}

func port(name string, protocol corev1.Protocol, number int32) corev1.ServicePort {
	return corev1.ServicePort{Name: name, Protocol: protocol, Port: number}
}

// classless makes a Service one for the cluster's default.
func classless(svc *corev1.Service) { svc.Spec.LoadBalancerClass = nil }

// annotated returns an edit that sets annotations, given as key, value, key, …;
// a value "-" removes the key.
func annotated(pairs ...string) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		if svc.Annotations == nil {
			svc.Annotations = map[string]string{}
		}
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i+1] == "-" {
				delete(svc.Annotations, pairs[i])
			} else {
				svc.Annotations[pairs[i]] = pairs[i+1]
			}
		}
	}
}

// asking returns an edit that sets one option by its neutral name.
func asking(o annotation.Name, value string) func(*corev1.Service) { return annotated(o.Key(), value) }

// all joins edits.
func all(edits ...func(*corev1.Service)) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		for _, edit := range edits {
			edit(svc)
		}
	}
}

func (s space) get(ctx context.Context, name string) (*corev1.Service, error) {
	var svc corev1.Service
	err := s.client.Get(ctx, client.ObjectKey{Namespace: s.name, Name: name}, &svc)
	return &svc, err
}

// change edits a Service as a user with an editor does, and returns what was stored.
func (s space) change(t *testing.T, name string, edit func(*corev1.Service)) *corev1.Service {
	t.Helper()
	return s.write(t, name, edit, func(svc *corev1.Service) error { return s.client.Update(t.Context(), svc) })
}

// changeStatus edits a Service through its status subresource, under a field
// manager's name.
func (s space) changeStatus(t *testing.T, name, manager string, edit func(*corev1.Service)) *corev1.Service {
	t.Helper()
	return s.write(t, name, edit, func(svc *corev1.Service) error {
		return s.client.Status().Update(t.Context(), svc, client.FieldOwner(manager))
	})
}

func (s space) write(t *testing.T, name string, edit func(*corev1.Service), put func(*corev1.Service) error) *corev1.Service {
	t.Helper()
	for {
		svc, err := s.get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		edit(svc)
		err = put(svc)
		if err == nil {
			return svc
		}
		if !apierrors.IsConflict(err) {
			t.Fatalf("writing service %s: %v", name, err)
		}
	}
}

// patch applies a merge patch to a Service.
func (s space) patch(t *testing.T, name, text string) {
	t.Helper()
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: name}}
	if err := s.client.Patch(t.Context(), svc, client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		t.Fatal(err)
	}
}

func (s space) delete(t *testing.T, name string) {
	t.Helper()
	svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: name}}
	if err := s.client.Delete(t.Context(), svc); err != nil {
		t.Fatal(err)
	}
}

// gone waits until a Service does not exist any more.
func (s space) gone(t *testing.T, name string) {
	t.Helper()
	eventually(t, "service "+name+" is gone", func() error {
		svc, err := s.get(t.Context(), name)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, fmt.Errorf("it has finalizers %v", svc.Finalizers))
	})
}

// await waits until a Service passes a check.
func (s space) await(t *testing.T, name, what string, check func(*corev1.Service) error) *corev1.Service {
	t.Helper()
	var last *corev1.Service
	eventually(t, "service "+name+": "+what, func() error {
		svc, err := s.get(t.Context(), name)
		if err != nil {
			return err
		}
		last = svc
		return check(svc)
	})
	return last
}

// served waits until a Service's present spec is served at an address, and
// returns the first one.
func (s space) served(t *testing.T, name string) string {
	t.Helper()
	svc := s.await(t, name, "served", all2(current, says(status.Programmed, metav1.ConditionTrue, ""), func(svc *corev1.Service) error {
		if len(svc.Status.LoadBalancer.Ingress) == 0 {
			return errors.New("no ingress")
		}
		return nil
	}))
	return svc.Status.LoadBalancer.Ingress[0].IP
}

// refused waits until the present spec is answered with Programmed=False and a
// reason, and returns the message.
func (s space) refused(t *testing.T, name, reason string) string {
	t.Helper()
	svc := s.await(t, name, "not served because of "+reason, all2(current, says(status.Programmed, metav1.ConditionFalse, reason)))
	return kube.FindCondition(svc, status.Programmed).Message
}

// all2 joins checks: the first error counts.
func all2(checks ...func(*corev1.Service) error) func(*corev1.Service) error {
	return func(svc *corev1.Service) error {
		for _, check := range checks {
			if err := check(svc); err != nil {
				return err
			}
		}
		return nil
	}
}

// current checks that what the Service says is about its present spec.
func current(svc *corev1.Service) error {
	if have, want := svc.Annotations[annotation.Observed.Key()], translate.Fingerprint(svc); have != want {
		return fmt.Errorf("its status is about %q, its spec is %q", have, want)
	}
	return nil
}

// says returns a check of a condition; an empty reason is any.
func says(condition string, want metav1.ConditionStatus, reason string) func(*corev1.Service) error {
	return func(svc *corev1.Service) error {
		c := kube.FindCondition(svc, condition)
		if c == nil {
			return fmt.Errorf("it has no condition %s", condition)
		}
		if c.Status != want || (reason != "" && c.Reason != reason) {
			return fmt.Errorf("condition %s is %s, %s: %s", condition, c.Status, c.Reason, c.Message)
		}
		return nil
	}
}

// guarded checks the finalizers, in any order.
func guarded(want ...string) func(*corev1.Service) error {
	return func(svc *corev1.Service) error {
		have := slices.Sorted(slices.Values(svc.Finalizers))
		if !slices.Equal(have, slices.Sorted(slices.Values(want))) {
			return fmt.Errorf("its finalizers are %v, not %v", have, want)
		}
		return nil
	}
}

// at checks the published addresses.
func at(addresses ...string) func(*corev1.Service) error {
	return func(svc *corev1.Service) error {
		if have := published(svc); !slices.Equal(have, addresses) {
			return fmt.Errorf("it publishes %v, not %v", have, addresses)
		}
		return nil
	}
}

func published(svc *corev1.Service) []string {
	out := make([]string, 0, len(svc.Status.LoadBalancer.Ingress))
	for _, i := range svc.Status.LoadBalancer.Ingress {
		out = append(out, i.IP+i.Hostname)
	}
	return out
}

// events returns the events of a Service, or of all; first the last ones.
func (s space) events(ctx context.Context, service string) ([]corev1.Event, error) {
	var list corev1.EventList
	if err := s.client.List(ctx, &list, client.InNamespace(s.name)); err != nil {
		return nil, err
	}
	list.Items = slices.DeleteFunc(list.Items, func(e corev1.Event) bool { return service != "" && e.InvolvedObject.Name != service })
	slices.SortFunc(list.Items, func(a, b corev1.Event) int { return strings.Compare(b.ResourceVersion, a.ResourceVersion) })
	return list.Items, nil
}
