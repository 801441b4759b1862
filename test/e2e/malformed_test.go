//go:build linux

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairlead-lb/fairlead/api/annotation"
	"github.com/fairlead-lb/fairlead/internal/kube"
	"github.com/fairlead-lb/fairlead/internal/status"
)

// TestMalformed creates Services that say all sorts of nonsense. The controller
// survives, and each one that the API server takes is told what is wrong, or
// that nothing is.
func TestMalformed(t *testing.T) {
	const batch = 250
	total := 2000
	if os.Getenv("FAIRLEAD_TEST_LONG") == "1" {
		total = 10_000
	}
	const seed = 20261201
	p := start(t, settings{"defaultProvider": "local", "addresses": settings{"releaseDelay": "0s"}, "log": settings{"level": "info"}})
	s := newSpace(t)
	reasons := map[string]int{}
	for begin := 0; begin < total; begin += batch {
		names := s.createMalformed(t, seed, begin, begin+batch)
		s.awaitReasons(t, names, reasons)
		if p.ended() {
			t.Fatalf("the controller ended: %v", p.err)
		}
		if t.Failed() {
			return
		}
		s.deleteAll(t)
	}
	t.Logf("seed %d, reasons: %v", uint64(seed), reasons)
	if len(reasons) < 8 {
		t.Errorf("only %d different reasons were given: the generator has lost its bite", len(reasons))
	}
}

// createMalformed creates Services by eight workers, and returns the names of
// those that the API server took.
func (s space) createMalformed(t *testing.T, seed uint64, from, to int) []string {
	t.Helper()
	numbers := make(chan int)
	var mu sync.Mutex
	var names []string
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for i := range numbers {
				svc := s.malformed(rand.New(rand.NewPCG(seed, uint64(i))), fmt.Sprintf("lb-%d", i))
				err := s.client.Create(t.Context(), svc)
				switch {
				case err == nil:
					mu.Lock()
					names = append(names, svc.Name)
					mu.Unlock()
				case !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err):
					t.Errorf("creating number %d: %v", i, err)
				}
			}
		})
	}
	for i := from; i < to; i++ {
		numbers <- i
	}
	close(numbers)
	workers.Wait()
	return names
}

// awaitReasons waits until each Service is told something that concerns its
// present spec, and counts what.
func (s space) awaitReasons(t *testing.T, names []string, reasons map[string]int) {
	t.Helper()
	for _, name := range names {
		svc := s.await(t, name, "told", func(svc *corev1.Service) error {
			if err := told(svc); err != nil {
				return fmt.Errorf("with annotations %v: %w", svc.Annotations, err)
			}
			return nil
		})
		for _, c := range svc.Status.Conditions {
			reasons[c.Reason]++
		}
	}
}

// told checks that both conditions are there, with a reason and a sentence.
func told(svc *corev1.Service) error {
	if err := current(svc); err != nil {
		return err
	}
	for _, condition := range []string{status.Accepted, status.Programmed} {
		c := kube.FindCondition(svc, condition)
		if c == nil || c.Reason == "" || c.Message == "" {
			return fmt.Errorf("condition %s is %+v", condition, c)
		}
	}
	return nil
}

func (s space) deleteAll(t *testing.T) {
	t.Helper()
	if err := s.client.DeleteAllOf(t.Context(), &corev1.Service{}, client.InNamespace(s.name)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the batch is gone", func() error {
		var list corev1.ServiceList
		err := s.client.List(t.Context(), &list, client.InNamespace(s.name), client.Limit(1))
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%s is left, with finalizers %v", list.Items[0].Name, list.Items[0].Finalizers)
		}
		return err
	})
}

// malformed is a Service with a random choice of what users, scripts and
// templates get wrong. Much of it is right, so that faults meet right parts.
func (s space) malformed(r *rand.Rand, name string) *corev1.Service {
	svc := s.draft(name, nil)
	if r.IntN(4) == 0 {
		svc.Spec.LoadBalancerClass = nil
	}
	svc.Spec.Ports = malformedPorts(r)
	svc.Annotations = map[string]string{}
	for range r.IntN(5) {
		svc.Annotations[malformedKey(r)] = malformedValue(r)
	}
	svc.Spec.LoadBalancerIP = maybe(r, malformedValue(r))
	if r.IntN(8) == 0 {
		svc.Spec.LoadBalancerSourceRanges = []string{pick(r, "0.0.0.0/0", "::/0", " 10.0.0.0/8 ", "fd00::/8", "10.0.0.1/8", "10.0.0.0/33")}
	}
	if r.IntN(3) == 0 {
		svc.Spec.ExternalTrafficPolicy = pick(r, corev1.ServiceExternalTrafficPolicyLocal, corev1.ServiceExternalTrafficPolicyCluster)
	}
	if r.IntN(3) == 0 {
		policy := pick(r, corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicySingleStack)
		svc.Spec.IPFamilyPolicy = &policy
	}
	if r.IntN(6) == 0 {
		svc.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol}
	}
	if r.IntN(4) == 0 {
		svc.Spec.SessionAffinity = pick(r, corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)
	}
	if r.IntN(5) == 0 {
		svc.Spec.Selector = map[string]string{"app": pick(r, "web", "")}
	}
	if r.IntN(8) == 0 {
		svc.Spec.ExternalIPs = []string{pick(r, "192.0.2.77", "192.0.2.78", "127.0.0.1")}
	}
	return svc
}

func malformedPorts(r *rand.Rand) []corev1.ServicePort {
	var ports []corev1.ServicePort
	for i := range 1 + r.IntN(4) {
		p := port(pick(r, fmt.Sprintf("p%d", i), fmt.Sprintf("http%d", i), fmt.Sprintf("%dweb", i), "http"),
			pick(r, corev1.ProtocolTCP, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP),
			pick(r, int32(8080), 8081, 65535, 1024+int32(r.IntN(60000))))
		if r.IntN(4) == 0 {
			p.TargetPort = pick(r, intstr.FromString("web"), intstr.FromInt32(8080), intstr.FromString("http-web"))
		}
		if r.IntN(12) == 0 {
			protocol := pick(r, "http", "kubernetes.io/h2c", "example.com/x", "no such")
			p.AppProtocol = &protocol
		}
		ports = append(ports, p)
	}
	return ports
}

// malformedKey is any key of any option, or one that is nearly so. The two that
// make a Service wait, or be somebody else's, are left out.
func malformedKey(r *rand.Rand) string {
	table := annotation.Table()
	for {
		o := table[r.IntN(len(table))]
		if o.Name == annotation.Paused || o.Name == annotation.ProviderName || o.Name == annotation.Observed {
			continue
		}
		key := pick(r, o.Keys()...)
		switch r.IntN(12) {
		case 0:
			return key + "s"
		case 1:
			return annotation.Prefix + string(o.Name[:len(o.Name)-1]) + "z"
		}
		return key
	}
}

func malformedValue(r *rand.Rand) string {
	return pick(r, "", " ", "true", "TRUE", "yes", "1", "-1", "0", "00", "1e3", "999999999999999999999", "50.5", "10s", "v1", "v2", "V2",
		"web=v2", "http=true,https=false", "UDP/53=v2", "TCP/0=v1", "=,=", ",,,", "none", "null", "{}", "[]", "<no value>", "{{ .Values.x }}",
		"ROUND_ROBIN", "round_robin", "not-an-ip", "127.0.0.1", "0.0.0.0", "::", "fd00::1", "::ffff:127.1.2.3", "300.1.2.3", "192.0.2.1,192.0.2.2",
		ownAddress(200, 100+r.IntN(4)), ownAddress(0, r.IntN(40)), ownAddress(0, 0)+"/24", "10.0.0.0/8,fd00::/8", "10.0.0.1/8", "0.0.0.0/0", "::/0", "/",
		"shop.example.com", "-shop-", "shop_example", "a=b,c", "a in (b)", "!x", "é", "\u202e", "a\nb", "\x00", "'; DROP TABLE services; --",
		string(make([]byte, 3000)), fmt.Sprint(r.Uint64()))
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func maybe(r *rand.Rand, text string) string {
	if r.IntN(6) > 0 {
		return ""
	}
	return text
}

// withoutEnd is a context for clean-up, which runs when the test's own has ended.
func withoutEnd(t *testing.T) context.Context {
	t.Helper()
	return context.WithoutCancel(t.Context())
}
