package kube_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairlead-lb/fairlead/internal/devcluster"
	"github.com/fairlead-lb/fairlead/internal/devcluster/devclustertest"
	"github.com/fairlead-lb/fairlead/internal/kube"
	"github.com/fairlead-lb/fairlead/internal/model"
)

// TestReleaseOnAnAPIServer: a real API server takes annotations and finalizers
// that come with a status, and lets a Service go that waited for them only.
func TestReleaseOnAnAPIServer(t *testing.T) {
	cluster := devclustertest.Start(t, devcluster.StartOptions{})
	admin := clientOf(t, cluster.AdminKubeconfig)
	user, err := kube.NewUser(kube.UserOptions{Kubeconfig: cluster.AdminKubeconfig, Namespace: "default", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	key := model.Key{Namespace: "default", Name: "web"}
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, Finalizers: []string{"fairlead.dev/load-balancer", "example.com/kept"},
			Annotations: map[string]string{"fairlead.dev/observed": "1", "fairlead.dev/proxy-protocol": "v2"},
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: new("fairlead.dev/local"),
			Ports: []corev1.ServicePort{{Port: 80}},
		},
	}
	if err := admin.Create(t.Context(), svc); err != nil {
		t.Fatal(err)
	}
	svc.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "127.77.0.4"}}
	for _, name := range []string{"fairlead.dev/Accepted", "example.com/Other"} {
		svc.Status.Conditions = append(svc.Status.Conditions, metav1.Condition{Type: name, Status: "True", Reason: "Because", LastTransitionTime: metav1.Now()})
	}
	if err := admin.Status().Update(t.Context(), svc); err != nil {
		t.Fatal(err)
	}
	if err := user.Release(t.Context(), svc, []string{"example.com/kept"}); err != nil {
		t.Fatal(err)
	}
	stored, err := user.Service(t.Context(), key)
	if err != nil || stored == nil {
		t.Fatalf("reading it: %v, %v", stored, err)
	}
	want := map[string]any{
		"annotations": map[string]string{"fairlead.dev/proxy-protocol": "v2"}, "finalizers": []string{"example.com/kept"},
		"conditions": 1, "ingress": 1,
	}
	got := map[string]any{
		"annotations": stored.Annotations, "finalizers": stored.Finalizers,
		"conditions": len(stored.Status.Conditions), "ingress": len(stored.Status.LoadBalancer.Ingress),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the Service (-want +got):\n%s", diff)
	}
	if err := admin.Delete(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	if stored, err = user.Service(t.Context(), key); err != nil || stored == nil || !slices.Contains(stored.Finalizers, "example.com/kept") {
		t.Fatalf("it does not wait for its finalizer: %v, %v", stored, err)
	}
	if err := user.Release(t.Context(), stored, nil); err != nil {
		t.Fatal(err)
	}
	if stored, err = user.Service(t.Context(), key); err != nil || stored != nil {
		t.Errorf("it is still there: %v, %v", stored, err)
	}
}

func clientOf(t *testing.T, kubeconfig string) client.Client {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
