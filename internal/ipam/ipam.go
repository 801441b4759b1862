// Package ipam decides which owner gets which address, and why not: pools of
// addresses, what is held, what is reserved for a former owner, and one request
// at a time in; a verdict out. Its choices are a function of the pools, the
// exclusions, the holdings and the reservations alone, so a table restored from
// records goes on exactly as the one that wrote them. It never takes an address
// from an owner that still asks for it, never lets two owners meet on a port,
// reads no clock and knows no Kubernetes object; which pools an owner may use
// is decided by the caller.
package ipam

import (
	"net/netip"
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// Pool is a named set of addresses to give out.
type Pool struct {
	Name string
	// Ranges are used up in the order written.
	Ranges []Range
	// AutoAssign lets a request get an address from the pool without naming
	// the pool or the address.
	AutoAssign bool
	// Priority orders automatic assignment: 1 is tried first; 0 and less
	// after every other (MetalLB, serviceAllocation.priority). Pools of equal
	// priority are tried in the order of their names.
	Priority int
	// AvoidBuggyIPs never gives out IPv4 addresses that end in .0 or .255,
	// also when they are asked for.
	AvoidBuggyIPs bool
}

// Request is what an owner wants.
type Request struct {
	Owner model.Key
	// Created is when the asking object was created. An owner older than a
	// reservation was already waiting when the address was released.
	Created time.Time
	// Asked is since when the owner is known to ask, where that is not
	// Created: objects tell the second that they were created in, which is
	// too coarse to say who came first. Zero: since Created.
	Asked time.Time
	// Families are the wanted address families, in order of preference, each
	// at most once.
	Families []model.Family
	// RequireAll: an address of every family or none (RequireDualStack).
	// Otherwise the families that can be had are given (PreferDualStack).
	RequireAll bool
	// Addresses are those asked for by name, at most one a family. Families
	// without one are assigned automatically.
	Addresses []netip.Addr
	// Pool is the pool asked for by name; empty: any.
	Pool string
	// Pools names the pools the owner may use; nil: all. A named pool or
	// address outside of them is refused.
	Pools []string
	// Ports are the listeners wanted at every address.
	Ports []model.Port
	Share Share
	// Delay is how long an address that the owner gives up by this request
	// (it moves, or drops a family) stays reserved for it; zero: not at all.
	Delay time.Duration
}

// asking is since when the owner asks.
func (r Request) asking() time.Time {
	if r.Asked.IsZero() {
		return r.Created
	}
	return r.Asked
}

// Share is on which terms an owner lets others use its address on other ports.
type Share struct {
	// Key must be the same for all who share; empty: the address is not shared.
	Key string
	// Namespace bounds the sharing to owners of that namespace. Empty: any
	// namespace (MetalLB's rule for its own annotation). Both sides' bounds
	// must hold.
	Namespace string
	// Backend must be the same for all who share: the selector's text under
	// externalTrafficPolicy Local, empty under Cluster.
	Backend string
}

// Holding is what an owner holds, complete enough to be restored.
type Holding struct {
	Owner   model.Key
	Created time.Time
	// Addresses are in the owner's order of preference, at most one a family.
	Addresses []netip.Addr
	// Ports are the granted ones, sorted; Share are the terms in force. Both
	// may lag behind the request after a change into conflict.
	Ports []model.Port
	Share Share
}

// Reservation keeps a released address for its former owner.
type Reservation struct {
	Address netip.Addr
	For     model.Key
	// Since is when the address was released; Until is the first instant at
	// which it is free again.
	Since, Until time.Time
}

// Verdict is the answer to a request.
type Verdict struct {
	// Addresses is what the owner holds now, in its order of preference,
	// also when the request was refused and an earlier address is kept.
	Addresses []netip.Addr
	// Pools names the pool of each of Addresses; "" outside of every pool
	// that the owner may use.
	Pools []string
	// Reason is AddressAssigned when there is nothing to complain about.
	Reason Reason
	// Message is one sentence: what, where, what to do.
	Message string
	// Partial: an address of at least one wanted family is missing.
	Partial bool
	// Changed: Addresses are not those the owner held before.
	Changed bool
	// RefusedPorts are wanted ports that another owner has at one of the
	// addresses, sorted. They are refused at all of them; the others serve.
	RefusedPorts []model.PortError
	// Reserved are the reservations made for addresses given up, and Ended
	// those that this verdict ended, each sorted by address.
	Reserved, Ended []Reservation
}

// Conflict is a pair of owners that were restored with an address that they
// may not share. First keeps a port that both were restored with: it is the
// one created earlier, or the one whose key sorts first.
type Conflict struct {
	Address       netip.Addr
	First, Second model.Key
	Message       string
}

// Reason says why a verdict is what it is. It is CamelCase, fit for a
// condition, an event and a metric label.
type Reason string

// The reasons.
const (
	// AddressAssigned: the request is met; Partial and the message tell of a
	// preferred family that could not be had.
	AddressAssigned Reason = "AddressAssigned"
	// AddressInUse: another owner has the address, or the port at it.
	AddressInUse Reason = "AddressInUse"
	// AddressHeld: the address is reserved for its former owner.
	AddressHeld Reason = "AddressHeld"
	// AddressNotInPool: the address asked for is in no pool, or not in the
	// pool asked for.
	AddressNotInPool Reason = "AddressNotInPool"
	// AddressOutsidePools: the address is kept, but no pool that the owner
	// may use contains it any more.
	AddressOutsidePools Reason = "AddressOutsidePools"
	// AddressExcluded: the address is one that is never given out.
	AddressExcluded Reason = "AddressExcluded"
	// UnknownPool: there is no pool of the name asked for.
	UnknownPool Reason = "UnknownPool"
	// PoolNotAllowed: the pool exists, but not for this owner.
	PoolNotAllowed Reason = "PoolNotAllowed"
	// PoolExhausted: all addresses of the usable pools are in use or reserved.
	PoolExhausted Reason = "PoolExhausted"
	// FamilyUnavailable: no usable pool has addresses of a wanted family.
	FamilyUnavailable Reason = "FamilyUnavailable"
	// FamilyMismatch: an address asked for is of a family that is not wanted.
	FamilyMismatch Reason = "FamilyMismatch"
	// InvalidRequest: the request contradicts itself.
	InvalidRequest Reason = "InvalidRequest"
	// SharingRefused: the owners' terms of sharing do not agree.
	SharingRefused Reason = "SharingRefused"
)
