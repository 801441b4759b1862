package cli

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/fairlead-lb/fairlead/api/annotation"
	"github.com/fairlead-lb/fairlead/api/config"
	"github.com/fairlead-lb/fairlead/internal/ipam"
	"github.com/fairlead-lb/fairlead/internal/kube"
	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/plan"
	"github.com/fairlead-lb/fairlead/internal/translate"
)

// withDefaults fills in what an API server would, as far as a balancer depends
// on it (core/v1 defaults and the ServiceIP allocators). Node ports stay as
// they are.
func withDefaults(svc *corev1.Service, namespace string) *corev1.Service {
	svc = svc.DeepCopy()
	spec := &svc.Spec
	svc.Namespace = cmp.Or(svc.Namespace, namespace)
	spec.SessionAffinity = cmp.Or(spec.SessionAffinity, corev1.ServiceAffinityNone)
	spec.ExternalTrafficPolicy = cmp.Or(spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	for i := range spec.Ports {
		spec.Ports[i].Protocol = cmp.Or(spec.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	if spec.IPFamilyPolicy == nil {
		spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack)
		if len(spec.IPFamilies) > 1 {
			spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack)
		}
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	if *spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack && len(spec.IPFamilies) == 1 {
		other := corev1.IPv6Protocol
		if spec.IPFamilies[0] == other {
			other = corev1.IPv4Protocol
		}
		spec.IPFamilies = append(spec.IPFamilies, other)
	}
	return svc
}

// offline plans without a cluster: as if nothing were there yet.
type offline struct {
	manifest  manifest
	namespace string
	// provider serves Services that do not say which.
	provider string
	table    *ipam.Table
}

func newOffline(m manifest, o planOptions, c config.Config) (*offline, error) {
	pool, err := ipam.ParsePool(string(annotation.Local), c.Local.Pools)
	if err != nil {
		return nil, fmt.Errorf("reading local.pools: %w", err)
	}
	return &offline{
		manifest: m, namespace: cmp.Or(o.cluster.Namespace, "default"),
		provider: cmp.Or(o.provider.value, c.DefaultProvider, string(annotation.Local)),
		table:    ipam.NewTable([]ipam.Pool{pool}, nil),
	}, nil
}

func (o *offline) plan(f fileService) planned {
	svc := withDefaults(f.svc, o.namespace)
	p := planned{provider: cmp.Or(providerOf(svc, nil), o.provider)}
	if passed := passOver(svc, f.at); passed != "" {
		return planned{passed: passed}
	}
	key := kube.KeyOf(svc)
	p.asked = translate.Service(translate.Source{
		Service: svc, Slices: slicesOf(o.manifest.slices, key, o.namespace), Nodes: o.manifest.nodes,
		Provider: annotation.Provider(p.provider), Protocols: protocolsOf(annotation.Provider(p.provider)), New: true,
	})
	want := p.asked.Balancer
	var verdict ipam.Verdict
	if p.provider == string(annotation.Local) && !p.asked.Blocked {
		verdict = o.table.Assign(p.asked.Request, time.Time{})
		want.Addresses = verdict.Addresses
		p.address(verdict)
	}
	if p.provider != string(annotation.Local) {
		want.Addresses = p.asked.Request.Addresses
		p.notes = append(p.notes, fmt.Sprintf("Provider %s chooses the address when it is applied.", p.provider))
	}
	want.Listeners = slices.DeleteFunc(slices.Clone(want.Listeners), func(l model.Listener) bool {
		return slices.ContainsFunc(verdict.RefusedPorts, func(e model.PortError) bool { return e.Port == l.Port })
	})
	p.portErrors = slices.Concat(p.asked.PortErrors, verdict.RefusedPorts)
	if p.asked.Blocked || p.provider == string(annotation.Local) && len(want.Addresses) == 0 {
		p.plan = plan.Remove(key, model.Observed{})
		return p
	}
	p.plan = plan.Diff(want, model.Observed{})
	return p
}

// address notes what is wrong with an address.
func (p *planned) address(v ipam.Verdict) {
	if v.Reason != "" && v.Reason != ipam.AddressAssigned {
		p.refusals = append(p.refusals, v.Message)
	} else if v.Partial {
		p.notes = append(p.notes, v.Message)
	}
}

// passOver says why no plan is made for a Service; empty: one is.
func passOver(svc *corev1.Service, at string) string {
	class := classOf(svc)
	switch {
	case svc.Spec.Type != corev1.ServiceTypeLoadBalancer:
		return fmt.Sprintf("%s: passed over Service %s, which is not of type LoadBalancer", at, svc.Name)
	case unknownClass(svc):
		return fmt.Sprintf("%s: passed over Service %s: Fairlead has no provider of class %s; write %s", at, svc.Name, class, knownClasses())
	case class != "" && !isOurs(class):
		return fmt.Sprintf("%s: passed over Service %s, whose class %s is another controller's", at, svc.Name, class)
	}
	return ""
}

func isOurs(class string) bool {
	return slices.ContainsFunc(annotation.Providers(), func(p annotation.Provider) bool {
		return class == translate.ClassPrefix+string(p)
	})
}

// slicesOf are the slices of a Service; those without a namespace are in the one given.
func slicesOf(all []discoveryv1.EndpointSlice, key model.Key, namespace string) []discoveryv1.EndpointSlice {
	var out []discoveryv1.EndpointSlice
	for _, s := range all {
		if cmp.Or(s.Namespace, namespace) == key.Namespace && s.Labels[discoveryv1.LabelServiceName] == key.Name {
			out = append(out, s)
		}
	}
	return out
}
