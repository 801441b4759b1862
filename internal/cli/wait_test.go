package cli

import (
	"errors"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/status"
)

func TestWait(t *testing.T) {
	port80 := model.Port{Protocol: model.TCP, Number: 80}
	later := func(change ...func(*corev1.Service)) *corev1.Service { return new(serviceNamed("web", change...)) }
	failed := served(status.Input{Ports: []model.Port{port80}, PortErrors: []model.PortError{{Port: port80, Reason: "PortInUse", Message: "another program listens; stop it"}}})
	pending := func(s *corev1.Service) {
		say(s, status.Of(status.Input{Address: status.Notice{Reason: "PoolExhausted", Message: "All addresses are in use; add a range."}}))
	}
	blocked := func(s *corev1.Service) {
		annotated("fairlead.dev/source-ranges", "x")(s)
		say(s, status.Of(status.Input{Problems: problemsOf("fairlead.dev/source-ranges", "x"), Blocked: true}))
	}
	deleting := func(s *corev1.Service) { s.DeletionTimestamp = new(metav1.NewTime(noon())) }
	proxy := annotated("fairlead.dev/proxy-protocol", "v2")
	cases := map[string]struct {
		reason string
		args   []string
		now    *corev1.Service
		later  []*corev1.Service
		fail   error
	}{
		"at-once":          {reason: "what is true already needs no wait", now: later(served(status.Input{}))},
		"becomes":          {reason: "new, then without an address, then served", now: later(), later: []*corev1.Service{later(pending), later(served(status.Input{}))}},
		"older-spec":       {reason: "True for an older spec does not count", now: later(served(status.Input{}), proxy), later: []*corev1.Service{later(proxy, served(status.Input{}))}},
		"older-spec-stays": {reason: "and when the controller never acts, the time is over", now: later(served(status.Input{}), proxy)},
		"timeout":          {reason: "the condition's sentence is the error", now: later(failed), args: []string{"--timeout", "5s"}},
		"said-once":        {reason: "the same lack is told once", now: later(failed), later: []*corev1.Service{later(failed), later(failed)}},
		"refused":          {reason: "a refused option is said as soon as it is seen", now: later(blocked)},
		"accepted":         {reason: "accepted although a port is not served", now: later(failed), args: []string{"--for", "accepted"}},
		"address":          {reason: "an address although a port is not served", now: later(failed), args: []string{"--for=address"}},
		"no-address":       {reason: "why there is none", now: later(pending), args: []string{"--for=address"}},
		"deleted":          {reason: "gone", now: later(served(status.Input{}), deleting), later: []*corev1.Service{nil}, args: []string{"--for=deleted"}},
		"recreated":        {reason: "another Service of the same name is another one", now: later(deleting), later: []*corev1.Service{later(func(s *corev1.Service) { s.UID = "other" })}, args: []string{"--for=deleted"}},
		"absent-deleted":   {reason: "what is not there is deleted", args: []string{"--for=deleted"}},
		"not-deleted":      {reason: "nobody deletes it", now: later(), args: []string{"--for=deleted"}},
		"absent":           {reason: "what is not there is never programmed"},
		"vanishes":         {reason: "deleted while it is waited for", now: later(), later: []*corev1.Service{nil}},
		"is-going":         {reason: "a Service on its way out is never programmed", now: later(served(status.Input{}), deleting)},
		"cluster-ip":       {reason: "no controller is to blame", now: later(classless, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeClusterIP })},
		"unknown-class":    {reason: "no controller will ever look at it", now: later(func(s *corev1.Service) { s.Spec.LoadBalancerClass = new("fairlead.dev/locl") })},
		"forbidden":        {reason: "no right to watch", fail: forbidden("services")},
		"bad-goal":         {reason: "usage", args: []string{"--for=happiness"}},
		"bad-timeout":      {reason: "usage", args: []string{"--timeout=0s"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &fakeCluster{watched: tc.later, fail: map[string]error{"Watch": tc.fail}}
				if tc.now != nil {
					c.services = []corev1.Service{*tc.now}
				}
				golden(t, "wait/"+name+".txt", run(t, c, "", append([]string{"wait", "svc/web"}, tc.args...)...).text())
			})
		})
	}
}

func TestWaitForSeveral(t *testing.T) {
	cases := map[string]struct {
		reason string
		args   []string
	}{
		"all":          {reason: "one that is not served does not hide those that are", args: []string{"--all"}},
		"all-json":     {reason: "what was waited for, as data", args: []string{"--all", "-A", "-o", "json"}},
		"labelled":     {reason: "by labels in all namespaces", args: []string{"-A", "-l", "tier=edge"}},
		"named":        {reason: "by their names", args: []string{"web", "svc/none", "-o", "yaml"}},
		"none":         {reason: "nothing to wait for is waited for", args: []string{"-l", "tier=none"}},
		"no-name":      {reason: "usage"},
		"none-deleted": {reason: "what is not there is deleted", args: []string{"-l", "tier=none", "--for=deleted"}},
		"name-and-all": {reason: "usage", args: []string{"web", "--all"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				golden(t, "wait/several-"+name+".txt", run(t, shopAndYard(), "", append([]string{"wait"}, tc.args...)...).text())
			})
		})
	}
}

func TestWaitPassesErrorsOn(t *testing.T) {
	c := &fakeCluster{fail: map[string]error{"Watch": errors.New("no route")}}
	if got := run(t, c, "", "wait", "svc/web"); got.err != "error: no route\n" || got.code != ExitFailed {
		t.Errorf("%+v", got)
	}
}
