package kube

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/fairlead-lb/fairlead/api/v1alpha1"
	"github.com/fairlead-lb/fairlead/internal/model"
)

const system = "fairlead-system"

func userOf(t *testing.T, objects ...client.Object) (*User, client.WithWatch) {
	t.Helper()
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&corev1.Service{}).
		WithIndex(&corev1.Service{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }).
		WithIndex(&corev1.Event{}, "involvedObject.uid", func(o client.Object) []string {
			return []string{string(o.(*corev1.Event).InvolvedObject.UID)}
		}).Build()
	return newUser(c, UserOptions{SystemNamespace: system, Timeout: time.Minute}, "shop"), c
}

func named(name string, change ...func(*corev1.Service)) *corev1.Service {
	svc := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: "uid"},
		Spec: corev1.ServiceSpec{
			Type:  corev1.ServiceTypeLoadBalancer,
			Ports: []corev1.ServicePort{{Name: "a", Protocol: "TCP", Port: 80}, {Name: "b", Protocol: "TCP", Port: 443}},
		},
	}
	for _, c := range change {
		c(svc)
	}
	return svc
}

func webKey() model.Key { return model.Key{Namespace: "shop", Name: "web"} }

func TestUserReads(t *testing.T) {
	event := func(name, component string, minute int) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, InvolvedObject: corev1.ObjectReference{UID: "uid"},
			Source: corev1.EventSource{Component: component}, LastTimestamp: metav1.NewTime(time.Date(2026, 5, 4, 12, minute, 0, 0, time.UTC)),
		}
	}
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}}
	record := &v1alpha1.ServiceRecord{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "shop.web"}}
	u, _ := userOf(t, named("web"), named("api"), slice, record,
		event("old", FieldManager, 1), event("new", FieldManager, 2), event("foreign", "kubelet", 3))
	ctx := t.Context()

	if svc, err := u.Service(ctx, model.Key{Namespace: "shop", Name: "none"}); svc != nil || err != nil {
		t.Errorf("a Service that is not there: %v, %v", svc, err)
	}
	svc, err := u.Service(ctx, webKey())
	if err != nil || svc == nil {
		t.Fatalf("reading web: %v, %v", svc, err)
	}
	list, err := u.Services(ctx, "", labels.Everything())
	if err != nil || len(list) != 2 || list[0].Name != "api" {
		t.Errorf("Services: %v, %v", list, err)
	}
	if got, err := u.Slices(ctx, webKey()); err != nil || len(got) != 1 {
		t.Errorf("Slices: %v, %v", got, err)
	}
	if got, err := u.Record(ctx, webKey()); err != nil || got == nil {
		t.Errorf("Record: %v, %v", got, err)
	}
	events, err := u.Events(ctx, svc)
	if err != nil || len(events) != 2 || events[0].Name != "new" {
		t.Errorf("Events: %v, %v", events, err)
	}
	for range 2 { // what is gone is no error
		if err := u.Forget(ctx, webKey()); err != nil {
			t.Errorf("Forget: %v", err)
		}
	}
	if got, err := u.Records(ctx); err != nil || len(got) != 0 {
		t.Errorf("Records: %v, %v", got, err)
	}
}

// TestReleaseIsOneWrite looks at the request: the fake keeps no metadata that
// comes with a status.
func TestReleaseIsOneWrite(t *testing.T) {
	u, c := userOf(t, spoken("web"))
	var sent []string
	u.client = interceptor.NewClient(c, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, options ...client.SubResourcePatchOption) error {
			body, err := p.Data(o)
			if err != nil {
				return err
			}
			sent = append(sent, sub+" "+string(p.Type())+" "+string(body))
			return c.SubResource(sub).Patch(ctx, o, p, options...)
		},
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return errors.New("a second way of writing")
		},
	})
	svc, err := u.Service(t.Context(), webKey())
	if err != nil {
		t.Fatal(err)
	}
	old := svc.DeepCopy()
	if err := u.Release(t.Context(), svc, nil); err != nil {
		t.Fatal(err)
	}
	// LoadBalancerPortsError stays: managedFields do not say that it is ours.
	conditions, err := json.Marshal(svc.Status.Conditions)
	if err != nil {
		t.Fatal(err)
	}
	want := `status application/merge-patch+json {"metadata":{"annotations":{"fairlead.dev/observed":null},"finalizers":[],"resourceVersion":"` +
		old.ResourceVersion + `"},"status":{"conditions":` + string(conditions) + `}}`
	if diff := cmp.Diff([]string{want}, sent); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"example.com/Other", "LoadBalancerPortsError"}, conditionTypes(svc)); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if len(svc.Status.LoadBalancer.Ingress) != 1 {
		t.Error("the addresses are gone")
	}
	if err := u.Release(t.Context(), old, nil); !errors.Is(err, ErrMovedOn) {
		t.Errorf("with an old one: %v", err)
	}
	sent = nil
	svc.Annotations = nil
	if err := u.Release(t.Context(), svc, svc.Finalizers); err != nil || sent != nil {
		t.Errorf("with nothing to do it sent %v, or failed: %v", sent, err)
	}
}

// spoken is a Service with all that a controller of ours writes, and more.
func spoken(name string) *corev1.Service {
	return named(name, func(s *corev1.Service) {
		s.Finalizers = []string{"fairlead.dev/load-balancer"}
		s.Annotations = map[string]string{"fairlead.dev/observed": "1", "fairlead.dev/proxy-protocol": "v2"}
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "127.77.0.4"}}
		for _, c := range []string{"fairlead.dev/Accepted", "example.com/Other", "LoadBalancerPortsError", "fairlead.dev/Programmed"} {
			s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{Type: c, Status: "True", Reason: "Because", LastTransitionTime: metav1.NewTime(time.Unix(1, 0))})
		}
	})
}

func conditionTypes(svc *corev1.Service) []string {
	var out []string
	for _, c := range svc.Status.Conditions {
		out = append(out, c.Type)
	}
	return out
}

func TestAnnotateNeedsTheLatest(t *testing.T) {
	u, _ := userOf(t, named("web"))
	svc, err := u.Service(t.Context(), webKey())
	if err != nil {
		t.Fatal(err)
	}
	old := svc.DeepCopy()
	if err := u.Annotate(t.Context(), svc, map[string]string{"x": "y"}); err != nil || svc.Annotations["x"] != "y" {
		t.Errorf("with the latest: %v, %v", err, svc.ObjectMeta)
	}
	if err := u.Annotate(t.Context(), old, map[string]string{"x": "z"}); !errors.Is(err, ErrMovedOn) {
		t.Errorf("with an old one: %v", err)
	}
}

func TestLeader(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	renewed := func(ago time.Duration, holder string) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: LeaseName},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &holder, LeaseDurationSeconds: new(int32(15)), RenewTime: new(metav1.NewMicroTime(now.Add(-ago))),
			},
		}
	}
	cases := map[string]struct {
		reason string
		lease  *coordinationv1.Lease
		want   string
	}{
		"live":     {"renewed within its duration", renewed(10*time.Second, "pod-1"), "pod-1"},
		"stale":    {"not renewed", renewed(16*time.Second, "pod-1"), ""},
		"released": {"given up", renewed(time.Second, ""), ""},
		"empty":    {"never held", &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: LeaseName}}, ""},
		"absent":   {"no lease", nil, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			if tc.lease != nil {
				objects = append(objects, tc.lease)
			}
			u, _ := userOf(t, objects...)
			if got, err := u.Leader(t.Context(), now); err != nil || got != tc.want {
				t.Errorf("%s: %q, %v", tc.reason, got, err)
			}
		})
	}
}

func TestWatchSeesEveryState(t *testing.T) {
	u, c := userOf(t, named("other"))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var seen []string
	changes := []func() error{
		func() error { return c.Create(ctx, named("web")) },
		func() error {
			return c.Patch(ctx, named("web"), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"x":"y"}}}`)))
		},
		func() error { return c.Delete(ctx, named("web")) },
	}
	began := make(chan struct{})
	u.client = interceptor.NewClient(c, interceptor.Funcs{
		Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) (watch.Interface, error) {
			w, err := c.Watch(ctx, list, o...)
			close(began)
			return w, err
		},
	})
	results := make(chan error, len(changes))
	err := u.Watch(ctx, webKey(), func(svc *corev1.Service) bool {
		if svc != nil && svc.Name != "web" { // the fake does not filter a watch
			return false
		}
		state := "absent"
		if svc != nil {
			state = "there " + svc.Labels["x"]
		}
		seen = append(seen, state)
		if len(changes) == 0 {
			return true
		}
		next := changes[0]
		changes = changes[1:]
		go func() {
			<-began // the watch begins after the first state is seen
			results <- next()
		}()
		return false
	})
	if err != nil {
		t.Fatalf("Watch: %v, after %v", err, seen)
	}
	for range cap(results) {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff([]string{"absent", "there ", "there y", "absent"}, seen); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	u.client = c
	ended, end := context.WithCancel(t.Context())
	end()
	if err := u.Watch(ended, webKey(), func(*corev1.Service) bool { return false }); !errors.Is(err, context.Canceled) {
		t.Errorf("a watch whose context has ended: %v", err)
	}
}

func TestDryRunStoresNothing(t *testing.T) {
	manifest := []byte(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"web","namespace":"shop"},"spec":{"type":"LoadBalancer","ports":[{"name":"a","protocol":"TCP","port":80}]}}`)
	last := `{"apiVersion":"v1","kind":"Service","metadata":{"name":"web","namespace":"shop","annotations":{"fairlead.dev/proxy-protocol":"v2"}},"spec":{"type":"LoadBalancer","ports":[{"name":"a","protocol":"TCP","port":80},{"name":"b","protocol":"TCP","port":443}]}}`
	live := named("web", func(s *corev1.Service) {
		s.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: last, "fairlead.dev/proxy-protocol": "v2", "example.com/kept": "x"}
	})
	u, _ := userOf(t, live)
	stored, err := u.Service(t.Context(), webKey())
	if err != nil {
		t.Fatal(err)
	}
	patch, err := threeWay([]byte(last), manifest, stored)
	if err != nil {
		t.Fatal(err)
	}
	var sent struct {
		Metadata struct{ Annotations map[string]*string }
		Spec     struct{ Ports []map[string]any }
	}
	if err := json.Unmarshal(patch, &sent); err != nil {
		t.Fatal(err)
	}
	delete(sent.Metadata.Annotations, corev1.LastAppliedConfigAnnotation)
	if diff := cmp.Diff(map[string]*string{"fairlead.dev/proxy-protocol": nil}, sent.Metadata.Annotations); diff != "" {
		t.Errorf("annotations of the patch: only what the manifest has dropped goes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]map[string]any{{"$patch": "delete", "port": 443.0}}, sent.Spec.Ports); diff != "" {
		t.Errorf("ports of the patch (-want +got):\n%s", diff)
	}
	if _, err := u.DryRun(t.Context(), manifest, stored); err != nil {
		t.Fatal(err)
	}
	if again, err := u.Service(t.Context(), webKey()); err != nil || len(again.Spec.Ports) != 2 {
		t.Errorf("the dry run was stored: %v, %v", again, err)
	}
	none, _ := userOf(t)
	if got, err := none.DryRun(t.Context(), manifest, nil); err != nil || got.Name != "web" {
		t.Errorf("creating: %v, %v", got, err)
	}
	if svc, err := none.Service(t.Context(), webKey()); err != nil || svc != nil {
		t.Errorf("the dry run was created: %v, %v", svc, err)
	}
	if _, err := none.DryRun(t.Context(), []byte("{"), nil); err == nil {
		t.Error("a broken manifest was accepted")
	}
}

func TestApplier(t *testing.T) {
	at := func(second int64) *metav1.Time { return new(metav1.NewTime(time.Unix(second, 0))) }
	svc := named("web", func(s *corev1.Service) {
		s.ManagedFields = []metav1.ManagedFieldsEntry{
			{Manager: "flux", Operation: metav1.ManagedFieldsOperationApply, Time: at(5)},
			{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply, Time: at(4)},
			{Manager: "fairlead", Operation: metav1.ManagedFieldsOperationApply, Time: at(9)},
			{Manager: "edit", Operation: metav1.ManagedFieldsOperationUpdate, Time: at(9)},
			{Manager: "other", Operation: metav1.ManagedFieldsOperationApply, Subresource: "status", Time: at(9)},
		}
	})
	if got := applier(svc); got != "flux" {
		t.Errorf("applied by %q", got)
	}
	if got := applier(named("web")); got != "" {
		t.Errorf("nobody applied, not %q", got)
	}
}

func TestKubeconfig(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config")
	text := `apiVersion: v1
kind: Config
current-context: a
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
contexts:
- {name: a, context: {cluster: c, user: u, namespace: in-a}}
- {name: b, context: {cluster: c, user: u}}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, tc := range []struct {
		want string
		o    UserOptions
	}{{want: "in-a"}, {"default", UserOptions{Context: "b"}}, {"mine", UserOptions{Namespace: "mine"}}, {"in-a", UserOptions{Kubeconfig: file}}} {
		u, err := NewUser(tc.o)
		if err != nil {
			t.Errorf("%+v: %v", tc.o, err)
			continue
		}
		if got := u.Namespace(); got != tc.want {
			t.Errorf("%+v: namespace %q, not %q", tc.o, got, tc.want)
		}
	}
	if _, err := NewUser(UserOptions{Context: "none"}); err == nil || errors.Is(err, ErrNoCluster) {
		t.Errorf("an unknown context: %v", err)
	}
	t.Setenv("KUBECONFIG", filepath.Join(dir, "none"))
	if _, err := NewUser(UserOptions{}); !errors.Is(err, ErrNoCluster) {
		t.Errorf("no kubeconfig: %v", err)
	}
}
