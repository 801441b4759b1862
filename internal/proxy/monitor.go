package proxy

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// The kinds of health check, in Octavia's words (health monitor type).
const (
	checkTCP  = "TCP"
	checkHTTP = "HTTP"
	checkUDP  = "UDP-CONNECT"
)

// checkPlan is how a member is checked. Its monitor has no open values; an
// empty type means that members are not checked.
type checkPlan struct {
	monitor model.Monitor
	header  model.ProxyProtocol
}

// target is what is checked, and how. Members with the same target share its
// checks.
type target struct {
	at   netip.AddrPort
	plan checkPlan
}

// targetOf returns what is checked for a member.
func (p checkPlan) targetOf(m *member) target {
	at := m.address
	if p.monitor.Port != 0 {
		at = netip.AddrPortFrom(at.Addr(), p.monitor.Port)
	}
	return target{at, p}
}

// spokenFor tells whether somebody else answers for the member: an HTTP server
// at another port, such as kube-proxy's at a Service's healthCheckNodePort.
// What that says needs no confirmation, and only 200 means yes.
func (p checkPlan) spokenFor() bool {
	return p.monitor.Type == checkHTTP && p.monitor.Port != 0
}

// resolveMonitor returns the plan of a listener's checks. What cannot be done
// as asked is said in the notes.
func resolveMonitor(l model.Listener) (checkPlan, []model.PortError) {
	m := l.Pool.Monitor
	note := func(reason, message string) (checkPlan, []model.PortError) {
		return checkPlan{}, []model.PortError{{Port: l.Port, Reason: reason, Message: message}}
	}
	if m.Type == "" {
		return checkPlan{}, nil
	}
	if reason, message := unsuited(l); reason != "" {
		return note(reason, message)
	}
	m = completedMonitor(m)
	if m.Timeout > m.Delay || m.Timeout <= 0 || m.MaxRetries < 1 || m.MaxRetriesDown < 1 {
		return note(HealthMonitorInvalid, fmt.Sprintf(
			"the health monitor's timeout %v must be above zero and at most its delay %v, and its retries %d and %d at least 1: members are not checked",
			m.Timeout, m.Delay, m.MaxRetries, m.MaxRetriesDown))
	}
	p := checkPlan{monitor: m}
	if m.Port == 0 {
		p.header = l.Pool.ProxyProtocol
	}
	return p, nil
}

// unsuited says why a listener's members cannot be checked by its kind of
// monitor; no reason: they can.
func unsuited(l model.Listener) (reason, message string) {
	kind, udp := l.Pool.Monitor.Type, l.Port.Protocol == model.UDP
	switch kind {
	case checkTCP, checkHTTP:
		if udp && l.Pool.Monitor.Port == 0 {
			return HealthMonitorNotSupported, fmt.Sprintf(
				"a UDP port answers no %s check, so the members of port %d are not checked: name a port for the health monitor", kind, l.Port.Number)
		}
	case checkUDP:
		if !udp {
			return HealthMonitorInvalid, fmt.Sprintf(
				"a %s health monitor is for UDP ports, so the members of port %d are not checked: use TCP or HTTP", kind, l.Port.Number)
		}
	default:
		return HealthMonitorInvalid, fmt.Sprintf("the health monitor type %q is not known: use TCP, HTTP or UDP-CONNECT", kind)
	}
	return "", ""
}

// completedMonitor fills in what is open: dead within 18 s, back within 10 s.
func completedMonitor(m model.Monitor) model.Monitor {
	const delay, timeout, rise, fall = 5 * time.Second, 3 * time.Second, 2, 3
	if m.Delay == 0 {
		m.Delay = delay
	}
	if m.Timeout == 0 {
		m.Timeout = min(timeout, m.Delay)
	}
	if m.MaxRetries == 0 {
		m.MaxRetries = rise
	}
	if m.MaxRetriesDown == 0 {
		m.MaxRetriesDown = fall
	}
	if m.Type == checkHTTP && m.Path == "" {
		m.Path = "/"
	}
	return m
}
