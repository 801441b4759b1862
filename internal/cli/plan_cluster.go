package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fairlead-lb/fairlead/api/annotation"
	"github.com/fairlead-lb/fairlead/internal/kube"
	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/plan"
	"github.com/fairlead-lb/fairlead/internal/translate"
)

// online plans against a cluster: from what the controller has been asked for
// so far to what the files ask for.
type online struct {
	*access
	manifest manifest
	provider string
}

func (o *online) plan(ctx context.Context, f fileService) (planned, error) {
	key := model.Key{Namespace: cmp.Or(f.svc.Namespace, o.Namespace()), Name: f.svc.Name}
	live, err := o.Service(ctx, key)
	if err != nil {
		return planned{}, err
	}
	served := live != nil && live.Spec.Type == corev1.ServiceTypeLoadBalancer && ours(live)
	if passed := passOver(f.svc, f.at); passed != "" && !served {
		return planned{passed: passed}, nil
	}
	around := facts{svc: live}
	if live == nil {
		around.svc = withDefaults(f.svc, key.Namespace)
	}
	if around, err = gatherWithout(ctx, o.access, around.svc); err != nil {
		return planned{}, err
	}
	var p planned
	p.notes = append(p.notes, around.unread...)
	want, err := o.wanted(ctx, f, key, live, &p)
	if err != nil {
		return planned{}, err
	}
	p.provider = cmp.Or(providerOf(want, around.record), o.provider)
	if p.provider == "" {
		p.provider = string(annotation.Local)
		p.notes = append(p.notes, "It names no class: local is taken to be the controller's defaultProvider; --provider names another.")
	}
	if own := slicesOf(o.manifest.slices, key, o.Namespace()); len(own) > 0 {
		around.slices = own
	}
	o.compare(&p, around, live, want)
	return p, nil
}

// gatherWithout gathers what bears on a Service, but for its events.
func gatherWithout(ctx context.Context, a *access, svc *corev1.Service) (facts, error) {
	quiet := *a
	quiet.surroundings = noEvents{a.surroundings}
	return gather(ctx, &quiet, svc)
}

// noEvents are surroundings without a request for events.
type noEvents struct{ surroundings }

func (noEvents) Events(context.Context, *corev1.Service) ([]corev1.Event, error) { return nil, nil }

// compare makes the plan.
func (o *online) compare(p *planned, around facts, live, want *corev1.Service) {
	key := kube.KeyOf(want)
	have := haveOf(around, live, p.provider)
	if passOver(want, "") != "" {
		p.plan = plan.Remove(key, have)
		return
	}
	f := around
	f.svc = want
	p.asked = translatedFor(f, p.provider)
	p.portErrors = p.asked.PortErrors
	if live != nil && !upToDate(live) && have.Exists {
		p.notes = append(p.notes, "The controller has not acted on the present spec yet; the plan starts from that spec.")
	}
	if p.asked.Blocked {
		p.plan = plan.Remove(key, have)
		return
	}
	balancer := p.asked.Balancer
	balancer.UID = have.Balancer.UID
	balancer.Addresses = addressesFor(p.asked, have)
	if len(balancer.Addresses) == 0 {
		p.notes = append(p.notes, "The controller chooses the address when it is applied.")
	}
	p.plan = plan.Diff(balancer, have)
}

// translatedFor is translated for a provider that may not stand on the Service.
func translatedFor(f facts, provider string) translate.Result {
	src := sourceOf(f)
	src.Provider = annotation.Provider(provider)
	src.Protocols = protocolsOf(src.Provider)
	return translate.Service(src)
}

// haveOf is the balancer that the controller made of a live Service, as far as
// the Kubernetes API tells: what its spec asks for, at the published addresses,
// without the ports that are said to have failed.
func haveOf(f facts, live *corev1.Service, provider string) model.Observed {
	if live == nil {
		return model.Observed{}
	}
	f.svc = live
	addresses := publishedAddresses(live, f)
	if len(addresses) == 0 {
		return model.Observed{}
	}
	asked := translatedFor(f, provider)
	failed := portErrors(f, asked)
	b := asked.Balancer
	b.Addresses = addresses
	b.Listeners = slices.DeleteFunc(slices.Clone(b.Listeners), func(l model.Listener) bool {
		_, bad := failed[l.Port]
		return bad
	})
	return model.Observed{Exists: true, Balancer: b}
}

// publishedAddresses are those of the status or, where it shows a host name,
// those of the record.
func publishedAddresses(svc *corev1.Service, f facts) []netip.Addr {
	var out []netip.Addr
	for _, i := range kube.IngressOf(svc) {
		if i.IP.IsValid() {
			out = append(out, i.IP)
		}
	}
	if len(out) > 0 || f.record == nil || len(svc.Status.LoadBalancer.Ingress) == 0 {
		return out
	}
	for _, text := range f.record.Spec.Addresses {
		if a, err := netip.ParseAddr(text); err == nil {
			out = append(out, a)
		}
	}
	return out
}

// addressesFor are the addresses asked for and, in the families that none is
// asked for in, those that are there.
func addressesFor(asked translate.Result, have model.Observed) []netip.Addr {
	var out []netip.Addr
	for _, family := range asked.Request.Families {
		for _, a := range slices.Concat(asked.Request.Addresses, have.Balancer.Addresses) {
			if model.FamilyOf(a) == family {
				out = append(out, a)
				break
			}
		}
	}
	if len(asked.Request.Addresses) > 1 { // the order asked for is the order of preference
		return asked.Request.Addresses
	}
	return out
}

// wanted is what the API server would make of the file or, where the user may
// not try that, the file with the live Service's allocations.
func (o *online) wanted(ctx context.Context, f fileService, key model.Key, live *corev1.Service, p *planned) (*corev1.Service, error) {
	text, err := inNamespace(f.json, key.Namespace)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.at, err)
	}
	want, err := o.DryRun(ctx, text, live)
	if err == nil {
		return want, nil
	}
	switch {
	case apierrors.IsForbidden(err):
		p.notes = append(p.notes, "You may not try this out on the API server, so its defaults are assumed.")
	case apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "dry run"):
		p.notes = append(p.notes, "A webhook of the cluster takes no dry run, so the API server's defaults are assumed.")
	default:
		return nil, fmt.Errorf("%s: %w", f.at, err)
	}
	return allocated(withDefaults(f.svc, key.Namespace), live), nil
}

func inNamespace(text []byte, namespace string) ([]byte, error) {
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	metadata, ok := fields["metadata"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("metadata is missing")
	}
	metadata["namespace"] = namespace
	return json.Marshal(fields)
}

// allocated gives a Service what the API server has allocated to the live one.
func allocated(svc, live *corev1.Service) *corev1.Service {
	if live == nil {
		return svc
	}
	svc.UID, svc.CreationTimestamp, svc.Finalizers = live.UID, live.CreationTimestamp, live.Finalizers
	for i, p := range svc.Spec.Ports {
		for _, q := range live.Spec.Ports {
			if p.NodePort == 0 && portOf(p) == portOf(q) {
				svc.Spec.Ports[i].NodePort = q.NodePort
			}
		}
	}
	return svc
}
