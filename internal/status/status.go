// Package status turns what was wanted, done and observed into what a Service
// says about itself: its ingress, its conditions and the one warning that is
// kept alive while it is not as asked. It decides the words and nothing else:
// it reads no clock, writes nothing, and the same input gives the same report.
package status

import (
	"net/netip"

	"github.com/fairlead-lb/fairlead/api/annotation"
	"github.com/fairlead-lb/fairlead/internal/model"
)

// The condition types on a Service, in the words of Gateway API. See
// core/v1 LoadBalancerPortsError (KEP-1435) for the third.
const (
	// Accepted: the manifest is understood and permitted.
	Accepted = "fairlead.dev/Accepted"
	// Programmed: every port is served as asked at the published addresses.
	Programmed = "fairlead.dev/Programmed"
	// PortsError is upstream's condition for ports that cannot be served.
	PortsError = "LoadBalancerPortsError"
)

// The reasons of Accepted.
const (
	ReasonAccepted             = "Accepted"
	ReasonInvalidOptions       = "InvalidOptions"
	ReasonUnknownOptions       = "UnknownOptions"
	ReasonOptionsNotYet        = "OptionsNotSupported"
	ReasonOptionsNotApplicable = "OptionsNotApplicable"
	ReasonOptionsConflict      = "OptionsConflict"
	ReasonOptionsUnmatched     = "OptionsUnmatched"
	ReasonOptionsOldMeaning    = "OptionsReadAsBefore"
	ReasonOptionsAdjusted      = "OptionsAdjusted"
)

// The reasons of Programmed; a pending address brings a reason of its own
// (internal/ipam), a port error too (internal/model).
const (
	ReasonProgrammed    = "Programmed"
	ReasonNotAccepted   = "NotAccepted"
	ReasonObserving     = "Observing"
	ReasonPaused        = "Paused"
	ReasonBackendError  = "BackendError"
	ReasonPortsFailed   = "PortsFailed"
	ReasonConflict      = "ConflictingController"
	ReasonNoAddress     = "AddressPending"
	ReasonAddressNotice = "AddressNotAsRequested"
)

// Input is everything the report depends on.
type Input struct {
	// Want is what the Service asks for, with the addresses that are assigned.
	Want model.Balancer
	// Ports are all ports of the Service, also those that cannot be served.
	Ports []model.Port
	// Hostname, when set, is published instead of the addresses.
	Hostname string
	// ProxyMode asks kube-proxy to leave the addresses to the load balancer
	// (KEP-1860, ipMode Proxy).
	ProxyMode bool
	Problems  []annotation.Problem
	// Blocked: a new Service whose exposure is unclear gets nothing.
	Blocked bool
	// Address says why there is no address, or not the one asked for; its
	// Reason is empty when all is well.
	Address Notice
	// Failure says why the backend is not as planned; empty when it is.
	Failure Notice
	// Hold says why nothing is written (observe mode, paused) and what would
	// be; empty when nothing holds or nothing would change.
	Hold Notice
	// Held: nothing is written but reports, also when nothing would change; the
	// ingress is left as it is published.
	Held bool
	// Note is one sentence more to say while all is served; empty: none.
	Note       string
	PortErrors []model.PortError
	Observed   model.Observed
	// Published is the ingress as it stands in the Service now.
	Published []Ingress
	// Rival is the field manager that keeps rewriting the ingress; empty: none.
	Rival string
}

// Notice is a reason with its sentence.
type Notice struct {
	Reason  string
	Message string
}

// Set tells whether there is something to say.
func (n Notice) Set() bool { return n.Reason != "" }

// Report is what the Service shall say.
type Report struct {
	// Ingress is nil when it must be left as it is (a rival writes it).
	Ingress    []Ingress
	KeepRival  bool
	Conditions []Condition
	// Warning is kept alive while it is set; Reason is empty when all is well.
	Warning Notice
}

// Ingress is one entry of status.loadBalancer.ingress.
type Ingress struct {
	IP       netip.Addr
	Hostname string
	// Proxy selects ipMode Proxy; it has a meaning only with IP.
	Proxy bool
	// Ports is empty, or holds every port of the Service.
	Ports []PortStatus
}

// PortStatus is one entry of ingress[].ports.
type PortStatus struct {
	Port model.Port
	// Error is empty or "fairlead.dev/CamelCase".
	Error string
}

// Condition is one entry of status.conditions, without its time of change.
type Condition struct {
	Type    string
	True    bool
	Reason  string
	Message string
}

// Of computes the report.
func Of(in Input) Report {
	accepted := acceptedCondition(in)
	programmed := programmedCondition(in)
	report := Report{
		Ingress:    ingress(in),
		KeepRival:  in.Rival != "",
		Conditions: []Condition{accepted, programmed},
	}
	if c, ok := portsCondition(in.PortErrors); ok {
		report.Conditions = append(report.Conditions, c)
	}
	report.Warning = warning(in, accepted, programmed)
	return report
}

// ingress publishes the assigned addresses once the backend has them. While
// nothing may be written it leaves what is published, and after a failure as
// well, less what is no longer held.
func ingress(in Input) []Ingress {
	if in.Rival != "" {
		return nil
	}
	if in.Held {
		return in.Published
	}
	if in.Failure.Set() {
		return stillHeld(in.Published, in.Want.Addresses)
	}
	if in.Blocked || len(in.Want.Addresses) == 0 {
		return []Ingress{}
	}
	ports := portStatuses(in)
	if in.Hostname != "" {
		return []Ingress{{Hostname: in.Hostname, Ports: ports}}
	}
	out := make([]Ingress, 0, len(in.Want.Addresses))
	for _, a := range in.Want.Addresses {
		out = append(out, Ingress{IP: a, Proxy: in.ProxyMode, Ports: ports})
	}
	return out
}

func stillHeld(published []Ingress, held []netip.Addr) []Ingress {
	out := []Ingress{}
	for _, i := range published {
		if i.Hostname != "" || contains(held, i.IP) {
			out = append(out, i)
		}
	}
	return out
}

func contains(addrs []netip.Addr, a netip.Addr) bool {
	for _, x := range addrs {
		if x == a {
			return true
		}
	}
	return false
}

// portStatuses lists every port as soon as one of them has an error: "if used,
// every port should have an entry" (core/v1 LoadBalancerIngress.ports).
func portStatuses(in Input) []PortStatus {
	if len(in.PortErrors) == 0 {
		return nil
	}
	reasons := make(map[model.Port]string, len(in.PortErrors))
	for _, e := range in.PortErrors {
		reasons[e.Port] = "fairlead.dev/" + e.Reason
	}
	out := make([]PortStatus, 0, len(in.Ports))
	for _, p := range in.Ports {
		out = append(out, PortStatus{Port: p, Error: reasons[p]})
	}
	return out
}
