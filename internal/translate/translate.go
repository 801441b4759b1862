// Package translate turns what Kubernetes says (a Service, its EndpointSlices,
// the nodes) into what a balancer is (internal/model) and what it needs
// (internal/ipam), with every problem it met on the way. It decides which
// Services are ours, which options are in force and who the members are. It
// reads nothing but its arguments, and writes nothing.
package translate

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/fairlead-lb/fairlead/api/annotation"
	"github.com/fairlead-lb/fairlead/internal/ipam"
	"github.com/fairlead-lb/fairlead/internal/model"
)

// affinityTimeout is the API server's default of
// sessionAffinityConfig.clientIP.timeoutSeconds (core/v1).
const affinityTimeout = 10800 * time.Second

// Source is everything a balancer is made from.
type Source struct {
	Service *corev1.Service
	Slices  []discoveryv1.EndpointSlice
	Nodes   []corev1.Node
	// Provider serves the Service, with these transport protocols.
	Provider  annotation.Provider
	Protocols []model.Protocol
	// Accepted and Written are those of the Service's record.
	Accepted map[annotation.Name]string
	Written  map[string]string
	// New: the Service has no record yet.
	New bool
}

// Result is what a Service asks for.
type Result struct {
	// Balancer has every port that can be served, and no address yet.
	Balancer model.Balancer
	// Ports are all ports of the Service, sorted.
	Ports   []model.Port
	Request ipam.Request
	// Hostname is to be published instead of the addresses; empty: none.
	Hostname string
	// Paused: nothing is to be written for this Service.
	Paused   bool
	Options  annotation.Result
	Problems []annotation.Problem
	// Blocked: who may reach the Service is in doubt and it was never served,
	// so it gets nothing.
	Blocked    bool
	PortErrors []model.PortError
	// NoNodes: traffic is sent to nodes and none is eligible. That is more
	// often a mistake, or a list that is not complete, than a wish to serve
	// nobody, so members that are there are to stay.
	NoNodes bool
}

// Service translates one Service.
func Service(src Source) Result {
	options := annotation.Parse(annotation.Input{
		Annotations: src.Service.Annotations,
		Spec:        specOptions(src.Service),
		Accepted:    src.Accepted,
		Written:     src.Written,
		Ports:       optionPorts(src.Service),
		Provider:    src.Provider,
		New:         src.New,
	})
	r := Result{
		Balancer: model.Balancer{
			Key: model.Key{Namespace: src.Service.Namespace, Name: src.Service.Name},
			UID: string(src.Service.UID),
		},
		Options:  options,
		Problems: options.Problems,
	}
	r.Hostname, _ = options.Values.Text(annotation.HostnameName)
	r.Paused, _ = options.Values.Bool(annotation.Paused)
	r.Blocked = src.New && slices.ContainsFunc(options.Problems, func(p annotation.Problem) bool { return p.Exposure })
	r.listeners(src)
	r.Balancer = r.Balancer.Normalize()
	r.Request = request(src.Service, options.Values, r.Ports)
	return r
}

// specOptions are the options that fields of the spec set.
func specOptions(svc *corev1.Service) map[annotation.Name]string {
	spec := map[annotation.Name]string{}
	if ip := svc.Spec.LoadBalancerIP; ip != "" {
		spec[annotation.Address] = ip
	}
	if ranges := svc.Spec.LoadBalancerSourceRanges; len(ranges) > 0 {
		spec[annotation.SourceRanges] = strings.Join(ranges, ",")
	}
	return spec
}

func optionPorts(svc *corev1.Service) []annotation.Port {
	ports := make([]annotation.Port, 0, len(svc.Spec.Ports))
	for _, p := range svc.Spec.Ports {
		ports = append(ports, optionPort(p))
	}
	return ports
}

func optionPort(p corev1.ServicePort) annotation.Port {
	return annotation.Port{Protocol: string(protocolOf(p)), Number: uint16(p.Port), Name: p.Name}
}

// listeners fills in the ports, each with its listener or its error.
func (r *Result) listeners(src Source) {
	nodes := targetsNodes(src, r.Options.Values)
	members := eligible(src.Service, src.Nodes, r.Options.Values)
	r.NoNodes = nodes && len(members) == 0
	for _, p := range src.Service.Spec.Ports {
		port := portOf(p)
		if slices.Contains(r.Ports, port) {
			// The API takes none twice (core/v1 validation).
			continue
		}
		r.Ports = append(r.Ports, port)
		switch {
		case !slices.Contains(src.Protocols, port.Protocol):
			r.PortErrors = append(r.PortErrors, unsupported(port, src))
		case nodes && p.NodePort == 0:
			r.PortErrors = append(r.PortErrors, noNodePort(p))
		default:
			l := listener(src.Service, p, r.Options.Values.For(optionPort(p)))
			if nodes {
				l.Pool.Members = nodeMembers(src.Service, p, members, src.Slices)
			} else {
				l.Pool.Members = podMembers(src.Service, p, src.Slices)
			}
			r.Balancer.Listeners = append(r.Balancer.Listeners, l)
		}
	}
	slices.SortFunc(r.Ports, model.Port.Compare)
	slices.SortFunc(r.PortErrors, func(a, b model.PortError) int { return a.Port.Compare(b.Port) })
}

// targetsNodes decides between pods and nodes. By itself it takes pods where no
// node has an address to send to: such a cluster has pods that this machine can
// reach, and a cluster with addressed nodes (kind, say) has not. Nodes without
// an address occur where no kubelet runs: endpoints need their node to exist.
func targetsNodes(src Source, v annotation.Values) bool {
	switch target, _ := v.Text(annotation.TargetType); target {
	case "pod":
		return false
	case "node":
		return true
	default:
		return slices.ContainsFunc(src.Nodes, func(n corev1.Node) bool {
			_, addressed := nodeAddress(&n, src.Service.Spec.IPFamilies)
			return addressed
		})
	}
}

func unsupported(p model.Port, src Source) model.PortError {
	names := make([]string, len(src.Protocols))
	for i, protocol := range src.Protocols {
		names[i] = string(protocol)
	}
	return model.PortError{
		Port:    p,
		Reason:  "ProtocolNotSupported",
		Message: fmt.Sprintf("provider %s serves %s only; take the port out of the Service, or serve it by another provider", src.Provider, strings.Join(names, " and ")),
	}
}

// listener reads the options of one port. What is not set stays zero: the
// provider's default.
func listener(svc *corev1.Service, p corev1.ServicePort, v annotation.Values) model.Listener {
	l := model.Listener{Port: portOf(p), Name: p.Name}
	l.AllowedCIDRs = sourceRanges(v)
	if limit, ok := v.Int(annotation.ConnectionLimit); ok {
		l.ConnectionLimit = &limit
	}
	mode, _ := v.Text(annotation.ConnectionLimitMode)
	l.LimitMode = model.LimitMode(mode)
	l.Timeouts.ClientData, _ = v.Duration(annotation.TimeoutClientData)
	l.Timeouts.MemberConnect, _ = v.Duration(annotation.TimeoutMemberConnect)
	l.Timeouts.MemberData, _ = v.Duration(annotation.TimeoutMemberData)
	l.Timeouts.TCPInspect, _ = v.Duration(annotation.TimeoutTCPInspect)
	l.Timeouts.UDPIdle, _ = v.Duration(annotation.UDPIdleTimeout)
	if drain, ok := v.Duration(annotation.DrainTimeout); ok && drain == 0 {
		l.Timeouts.Drain = model.CutAtOnce
	} else {
		l.Timeouts.Drain = drain
	}
	l.Pool = pool(svc, v)
	return l
}

func pool(svc *corev1.Service, v annotation.Values) model.Pool {
	method, _ := v.Text(annotation.LBMethod)
	proxy, _ := v.Text(annotation.ProxyProtocol)
	p := model.Pool{Algorithm: model.Algorithm(method), ProxyProtocol: proxyProtocol(proxy)}
	p.UniqueID, _ = v.Bool(annotation.ProxyProtocolUniqueID)
	if svc.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		p.Affinity = affinity(svc)
	}
	p.Monitor = monitor(v)
	return p
}

// proxyProtocol reads the option's words: "true" is OCCM's for v1.
func proxyProtocol(text string) model.ProxyProtocol {
	switch text {
	case "v1", "true":
		return model.ProxyV1
	case "v2":
		return model.ProxyV2
	default:
		return model.ProxyNone
	}
}

func affinity(svc *corev1.Service) time.Duration {
	c := svc.Spec.SessionAffinityConfig
	if c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil || *c.ClientIP.TimeoutSeconds <= 0 {
		return affinityTimeout
	}
	return time.Duration(*c.ClientIP.TimeoutSeconds) * time.Second
}

func monitor(v annotation.Values) model.Monitor {
	var m model.Monitor
	if on, _ := v.Bool(annotation.EnableHealthMonitor); !on {
		return m
	}
	m.Type = "TCP"
	m.Delay, _ = v.Duration(annotation.HealthMonitorDelay)
	m.Timeout, _ = v.Duration(annotation.HealthMonitorTimeout)
	m.MaxRetries, _ = v.Int(annotation.HealthMonitorMaxRetries)
	m.MaxRetriesDown, _ = v.Int(annotation.HealthMonitorMaxRetriesDown)
	return m
}

// sourceRanges drops the ranges that name a whole address family together
// with it only when that leaves nothing to restrict: "everybody of both
// families" is the same as no ranges at all.
func sourceRanges(v annotation.Values) []netip.Prefix {
	ranges, _ := v.Prefixes(annotation.SourceRanges)
	all4 := slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Bits() == 0 && p.Addr().Is4() })
	all6 := slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Bits() == 0 && p.Addr().Is6() })
	if all4 && all6 {
		return nil
	}
	return slices.Clone(ranges)
}

// request is what the Service needs of address management.
func request(svc *corev1.Service, v annotation.Values, ports []model.Port) ipam.Request {
	r := ipam.Request{
		Owner:   model.Key{Namespace: svc.Namespace, Name: svc.Name},
		Created: svc.CreationTimestamp.Time,
		Ports:   ports,
		Share:   share(svc, v),
	}
	for _, f := range svc.Spec.IPFamilies {
		r.Families = append(r.Families, model.Family(f))
	}
	policy := svc.Spec.IPFamilyPolicy
	r.RequireAll = policy != nil && *policy == corev1.IPFamilyPolicyRequireDualStack
	r.Addresses, _ = v.Addrs(annotation.Address)
	r.Pool, _ = v.Text(annotation.AddressPool)
	return r
}

// share reads the terms of sharing: within the namespace by the neutral
// option, with any by MetalLB's, which bounds it by the key alone.
func share(svc *corev1.Service, v annotation.Values) ipam.Share {
	s := ipam.Share{Backend: shareBackend(svc)}
	if key, ok := v.Text(annotation.Share); ok && key != "" {
		s.Key, s.Namespace = key, svc.Namespace
		return s
	}
	s.Key, _ = v.Text(annotation.AllowSharedIP)
	return s
}

// shareBackend is the selector's text under externalTrafficPolicy Local, so
// that only Services with the same pods share an address there.
func shareBackend(svc *corev1.Service) string {
	if svc.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal {
		return ""
	}
	pairs := make([]string, 0, len(svc.Spec.Selector))
	for k, value := range svc.Spec.Selector {
		pairs = append(pairs, k+"="+value)
	}
	slices.SortFunc(pairs, cmp.Compare[string])
	return strings.Join(pairs, ",")
}
