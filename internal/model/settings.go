package model

import (
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Setting is one named property of a listener as text. A value that is not set
// has the empty text, so two listeners differ exactly where their texts do.
type Setting struct {
	// Name is the option's neutral name (api/annotation), so that a plan
	// speaks the user's words.
	Name  string
	Value string
	// Of is the part of the listener that carries the setting.
	Of Part
}

// Part is a part of a listener that a provider may hold as an object of its own.
type Part string

// The parts.
const (
	PartListener Part = "listener"
	PartPool     Part = "pool"
	PartMonitor  Part = "health monitor"
)

// Settings returns everything about a listener that is compared, apart from
// its port and members, in a fixed order.
func (l Listener) Settings() []Setting {
	m := l.Pool.Monitor
	return []Setting{
		{"source-ranges", joinPrefixes(l.AllowedCIDRs), PartListener},
		{"connection-limit", intText(l.ConnectionLimit), PartListener},
		{"connection-limit-mode", string(l.LimitMode), PartListener},
		{"timeout-client-data", durationText(l.Timeouts.ClientData), PartListener},
		{"timeout-member-connect", durationText(l.Timeouts.MemberConnect), PartListener},
		{"timeout-member-data", durationText(l.Timeouts.MemberData), PartListener},
		{"timeout-tcp-inspect", durationText(l.Timeouts.TCPInspect), PartListener},
		{"udp-idle-timeout", durationText(l.Timeouts.UDPIdle), PartListener},
		{"drain-timeout", drainText(l.Timeouts.Drain), PartListener},
		{"lb-method", string(l.Pool.Algorithm), PartPool},
		{"proxy-protocol", string(l.Pool.ProxyProtocol), PartPool},
		{"proxy-protocol-unique-id", boolText(l.Pool.UniqueID), PartPool},
		{"session-affinity", durationText(l.Pool.Affinity), PartPool},
		{"health-monitor", monitorText(m), PartMonitor},
		{"health-monitor-delay", durationText(m.Delay), PartMonitor},
		{"health-monitor-timeout", durationText(m.Timeout), PartMonitor},
		{"health-monitor-max-retries", countText(m.MaxRetries), PartMonitor},
		{"health-monitor-max-retries-down", countText(m.MaxRetriesDown), PartMonitor},
	}
}

func joinPrefixes(prefixes []netip.Prefix) string {
	text := make([]string, len(prefixes))
	for i, p := range prefixes {
		text[i] = p.String()
	}
	return strings.Join(text, ",")
}

func intText(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}

func countText(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func durationText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

func boolText(b bool) string {
	if !b {
		return ""
	}
	return "true"
}

func drainText(d time.Duration) string {
	if d < 0 {
		return "0s"
	}
	return durationText(d)
}

func monitorText(m Monitor) string {
	if m.Type == "" {
		return ""
	}
	text := m.Type
	if m.Port != 0 {
		text += ":" + strconv.Itoa(int(m.Port))
	}
	return text + m.Path
}
