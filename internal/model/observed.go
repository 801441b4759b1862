package model

import "net/netip"

// Observed is what a provider's backend holds for one key.
type Observed struct {
	// Exists is false when the backend holds nothing at all for the key; any
	// leftover part counts as existing.
	Exists   bool
	Balancer Balancer
	// Poolless are the ports, sorted, whose listener is there without a pool:
	// half-created, or damaged by someone else. Their Pool is zero.
	Poolless []Port
	// Health is sorted by port; ports without anything to say may be absent.
	Health []PortHealth
}

// PortHealth is what is known of one listener in service.
type PortHealth struct {
	Port Port
	// At are the sockets it listens on, when they differ from the balancer's
	// addresses and the port (a port offset).
	At []netip.AddrPort
	// Error says why the listener does not serve, or only in part. Its
	// Reason is empty when it serves.
	Error   PortError
	Members []MemberHealth
}

// PortError is why a port cannot be served as asked.
type PortError struct {
	Port Port
	// Reason is CamelCase and at most 316 characters less the domain
	// (core/v1 PortStatus.error).
	Reason string
	// Message is one sentence: what is wrong, where, what to do.
	Message string
}

// MemberState is a member's health as the data plane sees it.
type MemberState string

// The member states.
const (
	MemberUnknown MemberState = "unknown"
	MemberUp      MemberState = "up"
	MemberDown    MemberState = "down"
)

// MemberHealth is the state of one member, with its cause when it is not up.
type MemberHealth struct {
	Address netip.AddrPort
	State   MemberState
	// Cause is a sentence for people, such as "connection refused" or "closes
	// right after the PROXY header: it may not expect one"; empty when all is well.
	Cause string
}
