//go:build linux

package e2e

import (
	"fmt"
	"os/exec"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestRelease: a cluster that is to do without Fairlead is left by one command,
// and nothing hangs afterwards. What is in service stays until then.
func TestRelease(t *testing.T) {
	p := start(t, settings{"defaultProvider": "local"})
	s := newSpace(t)
	names := []string{"a", "b", "classless", "becomes-clusterip"}
	for _, name := range names {
		edit := same
		if name == "classless" {
			edit = classless
		}
		s.service(t, name, edit)
		s.publish(t, name, serve(t, name), ready())
	}
	addresses := map[string]string{}
	for _, name := range names {
		addresses[name] = s.served(t, name)
	}
	p.kill(t)
	s.change(t, "becomes-clusterip", ofType(corev1.ServiceTypeClusterIP))
	out := s.release(t, "--all", "--to", "nothing", "--yes")
	t.Log(out)
	for _, name := range names {
		kept := at(addresses[name])
		if name == "becomes-clusterip" {
			kept = at()
		}
		s.await(t, name, "has no finalizer, no condition, and its address", all2(guarded(), kept, func(svc *corev1.Service) error {
			if len(svc.Status.Conditions) > 0 {
				return fmt.Errorf("conditions are left: %v", svc.Status.Conditions)
			}
			return nil
		}))
		s.unrecorded(t, name)
	}
	if again := s.release(t, "--all", "--to", "nothing", "--yes"); contains(again, "released") {
		t.Errorf("a second release did something:\n%s", again)
	}
	for _, name := range names {
		s.delete(t, name)
		s.gone(t, name)
	}
}

// TestReleaseWhileServing: a live controller does not take a released Service back.
func TestReleaseWhileServing(t *testing.T) {
	start(t, settings{"leaderElection": settings{"enabled": true, "leaseDuration": "10s", "renewDeadline": "8s", "retryPeriod": "500ms"}})
	s := newSpace(t)
	s.service(t, "lb", nil)
	s.publish(t, "lb", serve(t, "pod"), ready())
	address := s.served(t, "lb")
	s.release(t, "svc/lb", "--to", "nothing", "--yes")
	s.service(t, "after", nil)
	s.served(t, "after")
	s.await(t, "lb", "is not taken back", all2(guarded(), at(address)))
	s.unrecorded(t, "lb")
	s.delete(t, "lb")
	s.gone(t, "lb")
}

// release runs `fairlead release` for this namespace, as an administrator.
func (s space) release(t *testing.T, args ...string) string {
	t.Helper()
	args = append([]string{"release", "--kubeconfig", s.suite.Admin, "-n", s.name}, args...)
	out, err := exec.CommandContext(t.Context(), s.suite.Program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("fairlead %v: %v\n%s", args, err, out)
	}
	return string(out)
}
