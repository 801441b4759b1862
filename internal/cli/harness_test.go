package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fairlead-lb/fairlead/api/annotation"
	"github.com/fairlead-lb/fairlead/api/v1alpha1"
	"github.com/fairlead-lb/fairlead/internal/kube"
	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/status"
	"github.com/fairlead-lb/fairlead/internal/translate"
)

var update = flag.Bool("update", false, "write the golden files")

// noon is the time at which all commands run.
func noon() time.Time { return time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC) }

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("reading the golden file (write it with -update): %v", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", name, diff)
	}
}

// fakeCluster holds objects and notes every write.
type fakeCluster struct {
	services     []corev1.Service
	slices       []discoveryv1.EndpointSlice
	nodes        []corev1.Node
	events       []corev1.Event
	records      []v1alpha1.ServiceRecord
	reservations []v1alpha1.AddressReservation
	leader       string
	// confirms: a controller sees each new annotation at once.
	confirms bool
	// fail maps a method's name to the error it returns.
	fail map[string]error
	// dryRun answers DryRun.
	dryRun func(manifest []byte, live *corev1.Service) (*corev1.Service, error)
	// watched are the states that Watch shows after the present one; after the
	// last it waits for ctx.
	watched []*corev1.Service
	writes  []string
	// stopAfter is the number of writes after which every further one fails;
	// nil: none does.
	stopAfter *int
}

func (c *fakeCluster) Namespace() string { return "shop" }

func (c *fakeCluster) Service(_ context.Context, key model.Key) (*corev1.Service, error) {
	for i := range c.services {
		if kube.KeyOf(&c.services[i]) == key {
			return c.services[i].DeepCopy(), c.fail["Service"]
		}
	}
	return nil, c.fail["Service"]
}

func (c *fakeCluster) Services(_ context.Context, namespace string, selector labels.Selector) ([]corev1.Service, error) {
	var out []corev1.Service
	for i := range c.services {
		svc := &c.services[i]
		if (namespace == "" || svc.Namespace == namespace) && selector.Matches(labels.Set(svc.Labels)) {
			out = append(out, *svc.DeepCopy())
		}
	}
	return out, c.fail["Services"]
}

func (c *fakeCluster) Watch(ctx context.Context, key model.Key, see func(*corev1.Service) bool) error {
	if err := c.fail["Watch"]; err != nil {
		return err
	}
	now, _ := c.Service(ctx, key)
	for _, svc := range append([]*corev1.Service{now}, c.watched...) {
		if see(svc) {
			return nil
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

func (c *fakeCluster) Slices(_ context.Context, key model.Key) ([]discoveryv1.EndpointSlice, error) {
	var out []discoveryv1.EndpointSlice
	for _, s := range c.slices {
		if s.Namespace == key.Namespace && s.Labels[discoveryv1.LabelServiceName] == key.Name {
			out = append(out, s)
		}
	}
	return out, c.fail["Slices"]
}

func (c *fakeCluster) Nodes(context.Context) ([]corev1.Node, error) { return c.nodes, c.fail["Nodes"] }

func (c *fakeCluster) Events(_ context.Context, svc *corev1.Service) ([]corev1.Event, error) {
	var out []corev1.Event
	for _, e := range c.events {
		if e.InvolvedObject.UID == svc.UID {
			out = append(out, e)
		}
	}
	return out, c.fail["Events"]
}

func (c *fakeCluster) Record(_ context.Context, key model.Key) (*v1alpha1.ServiceRecord, error) {
	for i := range c.records {
		if c.records[i].Name == v1alpha1.RecordName(key.Namespace, key.Name) {
			return &c.records[i], c.fail["Record"]
		}
	}
	return nil, c.fail["Record"]
}

func (c *fakeCluster) Records(context.Context) ([]v1alpha1.ServiceRecord, error) {
	return c.records, c.fail["Records"]
}

func (c *fakeCluster) Reservations(context.Context) ([]v1alpha1.AddressReservation, error) {
	return c.reservations, c.fail["Reservations"]
}

func (c *fakeCluster) Leader(context.Context, time.Time) (string, error) {
	return c.leader, c.fail["Leader"]
}

func (c *fakeCluster) Forget(_ context.Context, key model.Key) error {
	if err := c.write("forget the record of " + key.String()); err != nil {
		return err
	}
	c.records = slices.DeleteFunc(c.records, func(r v1alpha1.ServiceRecord) bool {
		return r.Name == v1alpha1.RecordName(key.Namespace, key.Name)
	})
	return nil
}

func (c *fakeCluster) DryRun(_ context.Context, manifest []byte, live *corev1.Service) (*corev1.Service, error) {
	if c.dryRun == nil {
		return nil, errors.New("DryRun was not expected")
	}
	return c.dryRun(manifest, live)
}

func (c *fakeCluster) Annotate(_ context.Context, svc *corev1.Service, annotations map[string]string) error {
	var pairs []string
	for k, v := range annotations {
		pairs = append(pairs, k+"="+v)
	}
	slices.Sort(pairs)
	if err := c.write("annotate " + kube.KeyOf(svc).String() + " " + strings.Join(pairs, " ")); err != nil {
		return err
	}
	return c.change(svc, func(s *corev1.Service) {
		for k, v := range annotations {
			metav1.SetMetaDataAnnotation(&s.ObjectMeta, k, v)
		}
		if c.confirms {
			metav1.SetMetaDataAnnotation(&s.ObjectMeta, annotation.Observed.Key(), translate.Fingerprint(s))
		}
	})
}

func (c *fakeCluster) Release(_ context.Context, svc *corev1.Service, finalizers []string) error {
	if !kube.Speaks(svc) && slices.Equal(svc.Finalizers, finalizers) {
		return nil
	}
	if err := c.write(strings.TrimRight("release "+kube.KeyOf(svc).String()+", keep "+strings.Join(finalizers, " "), " ")); err != nil {
		return err
	}
	return c.change(svc, func(s *corev1.Service) {
		delete(s.Annotations, annotation.Observed.Key())
		s.Status.Conditions = nil
		s.Finalizers = finalizers
	})
}

// write notes a write, or fails as it is told to.
func (c *fakeCluster) write(what string) error {
	if err := c.fail["write"]; err != nil {
		return err
	}
	if c.stopAfter != nil && len(c.writes) >= *c.stopAfter {
		return errors.New("the connection is cut")
	}
	c.writes = append(c.writes, what)
	return nil
}

// change changes the stored Service and the caller's copy.
func (c *fakeCluster) change(svc *corev1.Service, f func(*corev1.Service)) error {
	for i := range c.services {
		if kube.KeyOf(&c.services[i]) == kube.KeyOf(svc) {
			f(&c.services[i])
			c.services[i].DeepCopyInto(svc)
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: "services"}, svc.Name)
}

func forbidden(resource string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("no right"))
}

// ran is what a command said and ended with.
type ran struct {
	out, err string
	code     int
}

// text is everything a command said, for golden files.
func (r ran) text() string {
	s := r.out
	if r.err != "" {
		s += "--- stderr\n" + r.err
	}
	if r.code != 0 {
		s += "--- exit code " + string(rune('0'+r.code)) + "\n"
	}
	return s
}

// run runs a command on a cluster; nil: there is none.
func run(t *testing.T, c *fakeCluster, stdin string, args ...string) ran {
	t.Helper()
	return runAs(t, "fairlead", c, stdin, args...)
}

func runAs(t *testing.T, program string, c *fakeCluster, stdin string, args ...string) ran {
	t.Helper()
	var out, err bytes.Buffer
	w := world{
		Streams: Streams{In: strings.NewReader(stdin), Out: &out, Err: &err},
		now:     noon,
		open: func(kube.UserOptions) (*access, error) {
			if c == nil {
				return nil, kube.ErrNoCluster
			}
			return &access{services: c, surroundings: c, ledger: c, editor: c}, nil
		},
	}
	root := newRoot(w, program)
	root.SetArgs(args)
	code := Execute(t.Context(), root)
	return ran{out.String(), err.String(), code}
}

// serviceNamed is a Service as the API server gives it back.
func serviceNamed(name string, change ...func(*corev1.Service)) corev1.Service {
	class := "fairlead.dev/local"
	policy := corev1.IPFamilyPolicySingleStack
	svc := corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID("uid-" + name),
			CreationTimestamp: metav1.NewTime(noon().Add(-5 * time.Minute)),
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: &class,
			Selector: map[string]string{"app": name}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, IPFamilyPolicy: &policy,
			SessionAffinity: corev1.ServiceAffinityNone, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyCluster,
			Ports: []corev1.ServicePort{
				{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080},
				{Name: "https", Protocol: corev1.ProtocolTCP, Port: 443, NodePort: 30443},
			},
		},
	}
	for _, c := range change {
		c(&svc)
	}
	return svc
}

// served puts what the controller says on a Service, computed as it does it.
func served(in status.Input) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		svc.Finalizers = []string{translate.Finalizer}
		in.Want.Addresses = []netip.Addr{netip.MustParseAddr("127.77.0.4")}
		say(svc, status.Of(in))
	}
}

func say(svc *corev1.Service, r status.Report) {
	metav1.SetMetaDataAnnotation(&svc.ObjectMeta, annotation.Observed.Key(), translate.Fingerprint(svc))
	svc.Status.Conditions = nil
	for _, c := range r.Conditions {
		state := metav1.ConditionFalse
		if c.True {
			state = metav1.ConditionTrue
		}
		svc.Status.Conditions = append(svc.Status.Conditions, metav1.Condition{Type: c.Type, Status: state, Reason: c.Reason, Message: c.Message})
	}
	svc.Status.LoadBalancer.Ingress = nil
	for _, i := range r.Ingress {
		entry := corev1.LoadBalancerIngress{IP: i.IP.String(), Hostname: i.Hostname}
		for _, p := range i.Ports {
			state := corev1.PortStatus{Port: int32(p.Port.Number), Protocol: corev1.Protocol(p.Port.Protocol)}
			if p.Error != "" {
				state.Error = &p.Error
			}
			entry.Ports = append(entry.Ports, state)
		}
		svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, entry)
	}
}

func annotated(key, value string) func(*corev1.Service) {
	return func(svc *corev1.Service) { metav1.SetMetaDataAnnotation(&svc.ObjectMeta, key, value) }
}

// changedAfter is a change that the controller has not seen.
func changedAfter(f func(*corev1.Service)) func(*corev1.Service) { return f }

func classless(svc *corev1.Service) { svc.Spec.LoadBalancerClass = nil }

// sliceOf is a slice with an endpoint for each state.
func sliceOf(service string, states ...string) discoveryv1.EndpointSlice {
	s := discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: service + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: service},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{
			{Name: new("http"), Port: new(int32(8080))},
			{Name: new("https"), Port: new(int32(8443))},
		},
	}
	for i, state := range states {
		n := string(rune('1' + i))
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{"10.0.0." + n},
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Name: service + "-" + n},
			NodeName:  new("node-" + n),
			Conditions: discoveryv1.EndpointConditions{
				Ready: new(state == stateReady), Serving: new(state != stateNotReady), Terminating: new(state == stateDraining),
			},
		})
	}
	return s
}
