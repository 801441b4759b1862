// Package plan compares the balancer that is wanted with the one that is there
// and says, as values, which steps lead from one to the other, in an order that
// never makes anything worse: parents are created and updated before children,
// new members exist before old ones lose weight, deletions come last and
// children-first. Only a balancer that belongs to another owner is deleted
// before its successor is created. The plan that is printed is the plan that is
// applied. It reads no clock, no map order and no backend.
package plan

import (
	"net/netip"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// Verb is what a step does.
type Verb string

// The verbs.
const (
	Create Verb = "create"
	Update Verb = "update"
	Delete Verb = "delete"
)

// Kind is the kind of object a step concerns, in Octavia's words.
type Kind string

// The kinds.
const (
	LoadBalancer  Kind = "load balancer"
	Listener      Kind = "listener"
	Pool          Kind = "pool"
	HealthMonitor Kind = "health monitor"
	MemberKind    Kind = "member"
)

// Step is one change of one object. Which values it brings is read from the
// plan's Want; a step names only the object and, for people, what differs.
type Step struct {
	Verb Verb
	Kind Kind
	// Port names the listener, and the listener of a pool, monitor or member.
	// It is zero for the load balancer.
	Port model.Port
	// Member names the member of a member step.
	Member netip.AddrPort
	// Changes are what differs, in a fixed order: of a created object, the
	// properties that are set.
	Changes []Change
}

// Change is one property that a step changes, as text. From is empty when a
// value is set for the first time, To when it is unset.
type Change struct {
	// Field is the option's neutral name for a setting of a listener, else
	// one of the Field constants.
	Field string
	From  string
	To    string
}

// The fields of a Change that are no settings of a listener.
const (
	// FieldAddresses is a load balancer's addresses, in their order.
	FieldAddresses = "addresses"
	// FieldOwner is the UID of the object that asked. It stands on the deletion of a
	// load balancer that another object of the same name had asked for.
	FieldOwner = "owner"
	// FieldWeight is a member's weight.
	FieldWeight = "weight"
)

// Plan is the way from Have to Want.
type Plan struct {
	Key model.Key
	// Want is the balancer as asked for, normalized. When it is to be
	// deleted, Remove is true and Want is zero.
	Want   model.Balancer
	Remove bool
	// Have is what was observed, normalized.
	Have  model.Observed
	Steps []Step
}

// Empty tells whether there is nothing to do.
func (p Plan) Empty() bool { return len(p.Steps) == 0 }
