// Package model says what a load balancer is, as values: who it belongs to,
// at which addresses it listens, and where each of its ports sends traffic. It
// is not shaped like a Service, so that other kinds of request (Gateway API
// routes, a future LoadBalancer resource) can be translated into the same
// values. It reads nothing, decides nothing and knows no provider.
package model

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Key names the object a balancer was asked for by: a Service today.
type Key struct {
	Namespace string
	Name      string
}

// String returns "namespace/name".
func (k Key) String() string { return k.Namespace + "/" + k.Name }

// Compare orders keys by namespace, then name.
func (k Key) Compare(o Key) int {
	return cmp.Or(cmp.Compare(k.Namespace, o.Namespace), cmp.Compare(k.Name, o.Name))
}

// Family is an address family, in the words of the Kubernetes API (IPFamily).
type Family string

// The two families.
const (
	IPv4 Family = "IPv4"
	IPv6 Family = "IPv6"
)

// FamilyOf returns the family of an address; an IPv4-mapped IPv6 address is IPv4.
func FamilyOf(a netip.Addr) Family {
	if a.Unmap().Is4() {
		return IPv4
	}
	return IPv6
}

// Protocol is a transport protocol, in the words of the Kubernetes API.
type Protocol string

// The protocols a Service port may name.
const (
	TCP  Protocol = "TCP"
	UDP  Protocol = "UDP"
	SCTP Protocol = "SCTP"
)

// Port identifies a listener of a balancer. Names and positions of Service
// ports never do: renaming or reordering them changes nothing.
type Port struct {
	Protocol Protocol
	Number   uint16
}

// String returns "TCP/80".
func (p Port) String() string { return string(p.Protocol) + "/" + strconv.Itoa(int(p.Number)) }

// Compare orders ports by number, then protocol.
func (p Port) Compare(o Port) int {
	return cmp.Or(cmp.Compare(p.Number, o.Number), cmp.Compare(p.Protocol, o.Protocol))
}

// ProxyProtocol is the version of the PROXY header written to members.
type ProxyProtocol string

// The PROXY protocol versions. An empty value means no header.
const (
	ProxyNone ProxyProtocol = ""
	ProxyV1   ProxyProtocol = "v1"
	ProxyV2   ProxyProtocol = "v2"
)

// Algorithm is a balancing algorithm, in Octavia's words (lb_algorithm).
type Algorithm string

// The algorithms. An empty value means the provider's default.
const (
	RoundRobin       Algorithm = "ROUND_ROBIN"
	LeastConnections Algorithm = "LEAST_CONNECTIONS"
	SourceIP         Algorithm = "SOURCE_IP"
	SourceIPPort     Algorithm = "SOURCE_IP_PORT"
)

// Balancer is one load balancer, wanted or observed.
type Balancer struct {
	Key Key
	// UID is that of the asking object; a new object of the same name is
	// another owner.
	UID string
	// Addresses are what clients connect to, in the order of preference, at
	// most one a family. Empty: none is assigned (yet).
	Addresses []netip.Addr
	// Listeners are sorted by port.
	Listeners []Listener
}

// Listener is one port of a balancer.
type Listener struct {
	Port Port
	// Name is the Service's name for the port; it is shown, never compared.
	Name string
	// AllowedCIDRs are the source ranges. Empty: everybody. Otherwise a
	// client whose family has no range is denied (fail closed).
	AllowedCIDRs []netip.Prefix
	// ConnectionLimit is the greatest number of concurrent client
	// connections; nil: the provider's default; -1: no limit.
	ConnectionLimit *int
	// LimitMode is what becomes of clients beyond the limit.
	LimitMode LimitMode
	Timeouts  Timeouts
	Pool      Pool
}

// LimitMode is what becomes of clients beyond a connection limit.
type LimitMode string

// The modes. An empty value means the provider's default, queue.
const (
	// LimitQueue: they wait, connected but unanswered.
	LimitQueue LimitMode = "queue"
	// LimitRefuse: they are reset.
	LimitRefuse LimitMode = "refuse"
)

// Timeouts are Octavia's four listener time-outs, and two of our own. Zero: the
// provider's default.
type Timeouts struct {
	ClientData    time.Duration
	MemberConnect time.Duration
	MemberData    time.Duration
	TCPInspect    time.Duration
	// UDPIdle is how long a UDP flow may be silent before it is forgotten.
	UDPIdle time.Duration
	// Drain is how long the connections of a member that gets no new traffic,
	// or of a listener that is removed, may live on. CutAtOnce: not at all.
	Drain time.Duration
}

// CutAtOnce is the drain time-out that ends connections without delay: zero
// means the provider's default.
const CutAtOnce time.Duration = -1

// Pool is how a listener's traffic is spread, and over whom.
type Pool struct {
	Algorithm     Algorithm
	ProxyProtocol ProxyProtocol
	// UniqueID adds an id of its own for each connection to the header of
	// version 2.
	UniqueID bool
	// Affinity sends a client address back to its member for this long after
	// its last new connection; zero: no affinity.
	Affinity time.Duration
	Monitor  Monitor
	// Members are sorted by address and unique by it.
	Members []Member
}

// Monitor is the active health check of a pool's members.
type Monitor struct {
	// Type is "", "TCP" or "HTTP"; empty: members are not checked.
	Type string
	// Port is the member port that is checked; zero: the traffic port.
	Port uint16
	// Path is what an HTTP check requests.
	Path    string
	Delay   time.Duration
	Timeout time.Duration
	// MaxRetries and MaxRetriesDown are the consecutive results that change a
	// member's state to up and to down.
	MaxRetries     int
	MaxRetriesDown int
}

// Member is one place a pool sends traffic to.
type Member struct {
	Address netip.AddrPort
	// Name is that of the pod or node behind the address; it is shown, never compared.
	Name string
	// Weight is the member's share, 1 to 256. 0: it gets no new traffic and
	// keeps what it has (draining).
	Weight int
}

// Allows tells whether a client may use the listener.
func (l Listener) Allows(client netip.Addr) bool {
	if len(l.AllowedCIDRs) == 0 {
		return true
	}
	client = client.Unmap()
	return slices.ContainsFunc(l.AllowedCIDRs, func(p netip.Prefix) bool { return p.Contains(client) })
}

// Equal tells whether two members are served the same way.
func (m Member) Equal(o Member) bool { return m.Address == o.Address && m.Weight == o.Weight }

// Find returns the listener of a port.
func (b Balancer) Find(p Port) (Listener, bool) {
	i, ok := slices.BinarySearchFunc(b.Listeners, p, func(l Listener, p Port) int { return l.Port.Compare(p) })
	if !ok {
		return Listener{}, false
	}
	return b.Listeners[i], true
}

// Normalize returns the balancer in canonical form: listeners and members
// sorted, members unique (the greater weight wins), addresses unmapped.
// Everything that compares balancers expects this form.
func (b Balancer) Normalize() Balancer {
	b.Addresses = slices.Clone(b.Addresses)
	for i, a := range b.Addresses {
		b.Addresses[i] = a.Unmap()
	}
	b.Listeners = slices.Clone(b.Listeners)
	slices.SortFunc(b.Listeners, func(x, y Listener) int { return x.Port.Compare(y.Port) })
	for i := range b.Listeners {
		b.Listeners[i] = b.Listeners[i].normalize()
	}
	return b
}

func (l Listener) normalize() Listener {
	l.AllowedCIDRs = slices.Clone(l.AllowedCIDRs)
	for i, p := range l.AllowedCIDRs {
		l.AllowedCIDRs[i] = p.Masked()
	}
	slices.SortFunc(l.AllowedCIDRs, netip.Prefix.Compare)
	l.AllowedCIDRs = slices.Compact(l.AllowedCIDRs)
	l.Pool.Members = normalizeMembers(l.Pool.Members)
	return l
}

func normalizeMembers(in []Member) []Member {
	members := slices.Clone(in)
	for i, m := range members {
		members[i].Address = netip.AddrPortFrom(m.Address.Addr().Unmap(), m.Address.Port())
	}
	slices.SortFunc(members, func(x, y Member) int {
		return cmp.Or(x.Address.Compare(y.Address), cmp.Compare(y.Weight, x.Weight), cmp.Compare(x.Name, y.Name))
	})
	return slices.CompactFunc(members, func(x, y Member) bool { return x.Address == y.Address })
}

// Text returns the balancer in the form that plans, logs, golden files and the
// command line show: one line for the balancer, one a listener, one a member.
func (b Balancer) Text() string {
	var s strings.Builder
	fmt.Fprintf(&s, "load balancer %s at %s\n", b.Key, JoinAddrs(b.Addresses))
	for _, l := range b.Listeners {
		fmt.Fprintf(&s, "  listener %s%s\n", l.Port, settingsText(l.Settings()))
		for _, m := range l.Pool.Members {
			fmt.Fprintf(&s, "    member %s weight %d%s\n", m.Address, m.Weight, nameText(m.Name))
		}
	}
	return s.String()
}

func nameText(name string) string {
	if name == "" {
		return ""
	}
	return " (" + name + ")"
}

func settingsText(settings []Setting) string {
	var s strings.Builder
	for _, x := range settings {
		if x.Value != "" {
			fmt.Fprintf(&s, " %s=%s", x.Name, x.Value)
		}
	}
	return s.String()
}

// JoinAddrs returns addresses separated by commas, or "no address".
func JoinAddrs(addrs []netip.Addr) string {
	if len(addrs) == 0 {
		return "no address"
	}
	text := make([]string, len(addrs))
	for i, a := range addrs {
		text[i] = a.String()
	}
	return strings.Join(text, ",")
}
