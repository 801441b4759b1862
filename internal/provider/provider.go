// Package provider is the port between the controller and what balances: an
// OpenStack cloud, the nodes of a bare-metal cluster, or this process. A
// provider sees model values, never a Kubernetes object, and never another
// provider. The contract below is written as sentences; the suite
// provider/providertest runs each of them against every provider.
package provider

import (
	"context"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/plan"
)

// Provider reads and writes one backend.
//
// All methods may be called concurrently, for one key by one caller at a time.
// Errors are transient unless they wrap one of this package's sentinels.
type Provider interface {
	// Traits says what this provider is and can do. It is constant.
	Traits() Traits

	// Observe returns what the backend holds for a key. It writes nothing.
	// A key that the backend does not know is no error: Exists is false. What
	// it returns is a copy. A setting that stands at the backend's default
	// is reported as not set, and one that the backend cannot tell as it was
	// last applied, so that nothing differs for ever (plan.Diff).
	Observe(ctx context.Context, key model.Key) (model.Observed, error)

	// Apply carries out the steps of a plan in their order. Applying a plan
	// twice is the same as once. Deleting what is absent is no error, nor is
	// creating what is already there as wanted. A port that cannot be served
	// is returned as a PortError and does not stop the others; the error is
	// for what concerns the whole balancer. After an error, a new Observe and
	// Diff yield the remaining steps. Apply honours ctx and touches only
	// what belongs to the plan's key; deletions are meant for the owner that
	// the plan observed and spare another one's balancer of the same key.
	Apply(ctx context.Context, p plan.Plan) ([]model.PortError, error)

	// List returns the key of every balancer of this cluster that the backend
	// holds, also of those whose asking object is gone, sorted.
	List(ctx context.Context) ([]model.Key, error)

	// Run serves until ctx ends, and calls changed whenever the backend's
	// state of a key changed without an Apply (a member went down, a port
	// became free). It returns nil when ctx ends. The other methods may be
	// called before and while it runs.
	Run(ctx context.Context, changed func(model.Key)) error
}

// Traits is what the rest of the system needs to know about a provider.
type Traits struct {
	// Name is the provider's name in configuration and documentation, such
	// as "local"; its class is "fairlead.dev/<name>".
	Name string
	// Addresses says who chooses addresses.
	Addresses AddressSource
	// Protocols are the transport protocols it can serve.
	Protocols []model.Protocol
	// ProxyMode tells that skipping the load balancer from inside the cluster
	// would change what a client or backend sees, so status says ipMode Proxy.
	ProxyMode bool
	// Ephemeral tells that the backend ends with this process and forgets
	// everything, so that it has to be filled again after a restart, also for
	// Services that nothing is to be changed for.
	Ephemeral bool
}

// AddressSource says who chooses a balancer's addresses.
type AddressSource string

// The address sources.
const (
	// FromPools: the controller, by internal/ipam, before Apply.
	FromPools AddressSource = "pools"
	// FromBackend: the backend; Observe reports what it gave.
	FromBackend AddressSource = "backend"
)
