package cli

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// shownEndpoints bounds how many endpoints of a port are listed.
const shownEndpoints = 10

// The states of an endpoint (discovery/v1 EndpointConditions).
const (
	stateReady    = "ready"
	stateDraining = "draining"
	stateNotReady = "not ready"
)

// endpoint is one address behind a port, as its slice says.
type endpoint struct {
	address string
	pod     string
	node    string
	state   string
}

// endpointsHop says who stands behind each port.
func endpointsHop(f facts) hop {
	h := hop{name: endpointsName}
	if !f.slicesRead {
		h.unknown, h.says = true, "not known"
		return h
	}
	served := 0
	for _, p := range f.svc.Spec.Ports {
		found := endpointsOf(f, p)
		ready := countState(found, stateReady)
		wrong := ready == 0
		h.details = append(h.details, fmt.Sprintf("%s %s: %s", markOf(wrong), portOf(p), endpointsSummary(found)))
		h.details = append(h.details, endpointLines(found)...)
		if !wrong {
			served++
		} else if !h.wrong {
			cause, remedy := whyNoEndpoints(f, p, found)
			h.fail(cause, remedy)
		}
	}
	h.says = fmt.Sprintf("%d of %s with ready endpoints", served, count(len(f.svc.Spec.Ports), "port"))
	return h
}

// endpointsOf are the endpoints of the Service's first family that has any.
func endpointsOf(f facts, p corev1.ServicePort) []endpoint {
	for _, family := range f.svc.Spec.IPFamilies {
		var out []endpoint
		for i := range f.slices {
			s := &f.slices[i]
			number, ok := numberIn(s, p)
			if string(s.AddressType) != string(family) || !ok {
				continue
			}
			for j := range s.Endpoints {
				out = append(out, endpointOf(&s.Endpoints[j], number)...)
			}
		}
		if len(out) > 0 {
			slices.SortFunc(out, func(a, b endpoint) int {
				if c := strings.Compare(order(a.state), order(b.state)); c != 0 {
					return c
				}
				return strings.Compare(a.address, b.address)
			})
			return out
		}
	}
	return nil
}

// order puts ready endpoints before draining ones and those before the rest.
func order(state string) string {
	switch state {
	case stateReady:
		return "0"
	case stateDraining:
		return "1"
	}
	return "2"
}

func numberIn(s *discoveryv1.EndpointSlice, p corev1.ServicePort) (int, bool) {
	for _, x := range s.Ports {
		sameName := x.Name != nil && *x.Name == p.Name || x.Name == nil && p.Name == ""
		sameProtocol := x.Protocol == nil || string(*x.Protocol) == string(portOf(p).Protocol)
		if x.Port != nil && sameName && sameProtocol {
			return int(*x.Port), true
		}
	}
	return 0, false
}

func endpointOf(e *discoveryv1.Endpoint, number int) []endpoint {
	var out []endpoint
	for _, a := range e.Addresses[:min(1, len(e.Addresses))] {
		x := endpoint{address: net.JoinHostPort(a, strconv.Itoa(number)), state: stateOf(e.Conditions)}
		if e.TargetRef != nil {
			x.pod = e.TargetRef.Name
		}
		if e.NodeName != nil {
			x.node = *e.NodeName
		}
		out = append(out, x)
	}
	return out
}

func stateOf(c discoveryv1.EndpointConditions) string {
	switch {
	case c.Ready == nil || *c.Ready:
		return stateReady
	case c.Serving != nil && *c.Serving:
		return stateDraining
	}
	return stateNotReady
}

func countState(in []endpoint, state string) int {
	n := 0
	for _, e := range in {
		if e.state == state {
			n++
		}
	}
	return n
}

func endpointsSummary(in []endpoint) string {
	if len(in) == 0 {
		return "no endpoints"
	}
	var parts []string
	for _, state := range []string{stateReady, stateDraining, stateNotReady} {
		if n := countState(in, state); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	return strings.Join(parts, ", ")
}

func endpointLines(in []endpoint) []string {
	var lines []string
	for i, e := range in {
		if i == shownEndpoints {
			return append(lines, fmt.Sprintf("    and %d more", len(in)-i))
		}
		line := fmt.Sprintf("    %s %s", e.address, e.state)
		if e.pod != "" {
			line += ", " + e.pod
		}
		if e.node != "" {
			line += " on " + e.node
		}
		lines = append(lines, line)
	}
	return lines
}

// whyNoEndpoints says why a port has no ready endpoint.
func whyNoEndpoints(f facts, p corev1.ServicePort, found []endpoint) (cause, remedy string) {
	namespace, port := f.svc.Namespace, portOf(p)
	if len(found) > 0 {
		return fmt.Sprintf("%s has no ready endpoint: %s.", port, endpointsSummary(found)),
			fmt.Sprintf("See why the pod is not ready: kubectl -n %s describe pod %s", namespace, found[len(found)-1].pod)
	}
	if len(f.svc.Spec.Selector) == 0 {
		return fmt.Sprintf("%s has no endpoints, and the Service has no selector that would give it any.", port),
			"Set spec.selector to the labels of the pods, or create an EndpointSlice for the Service."
	}
	selector := labels.Set(f.svc.Spec.Selector).String()
	look := fmt.Sprintf("kubectl -n %s get pods -l %s", namespace, selector)
	for i := range f.slices {
		if len(f.slices[i].Endpoints) > 0 {
			return fmt.Sprintf("%s has no endpoints: the pods have no port named %s.", port, p.TargetPort.String()),
				"Name the port in the pods' template, or set targetPort to its number; see the pods: " + look
		}
	}
	return fmt.Sprintf("%s has no endpoints: no pod that runs has the labels %s.", port, selector),
		"Compare spec.selector with the pods' labels: " + look
}
