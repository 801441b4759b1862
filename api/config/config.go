// Package config is Fairlead's configuration file: its fields with their
// defaults, limits and documentation, and a parser that reports every problem
// of a file at once, each with its line and path. It decides whether a file is
// a configuration. It never opens a file, never applies one, and never accepts
// a key that it does not know.
package config

import "time"

// The type of the file, as it says of itself.
const (
	APIVersion = "fairlead.dev/v1alpha1"
	Kind       = "Configuration"
)

// Mode says whether Fairlead acts.
type Mode string

// The modes.
const (
	// Apply: what is planned is done.
	Apply Mode = "apply"
	// Observe: everything is read, planned and reported, and nothing is
	// written but reports.
	Observe Mode = "observe"
)

// Config is a complete, valid configuration, when it comes from New or Parse.
// What each field means is documented in Fields, which is also the source of
// the configuration page; the comments here give only the units.
type Config struct {
	Mode              Mode
	Providers         []string
	DefaultProvider   string
	Namespace         string
	ServiceSelector   string
	NamespaceSelector string
	Workers           int
	ResyncPeriod      time.Duration
	Addresses         Addresses
	Local             Local
	Metrics           Metrics
	Health            Health
	LeaderElection    LeaderElection
	Log               Log
	Shutdown          Shutdown
}

// Addresses is about addresses of any pool.
type Addresses struct {
	ReleaseDelay time.Duration
}

// Local is about the local provider.
type Local struct {
	// Pools are CIDRs and ranges "first-last", in the form they are written in.
	Pools      []string
	PortOffset int
}

// Metrics is about the metrics endpoint.
type Metrics struct {
	// Address is "host:port" or ":port"; empty: no endpoint.
	Address string
	Secure  bool
}

// Health is about the health endpoint.
type Health struct {
	// Address is "host:port" or ":port"; empty: no endpoint.
	Address string
}

// LeaderElection is about which of several controllers acts.
type LeaderElection struct {
	Enabled       bool
	Name          string
	LeaseDuration time.Duration
	RenewDeadline time.Duration
	RetryPeriod   time.Duration
}

// Log is about the log.
type Log struct {
	Level  string
	Format string
}

// Shutdown is about how the process ends.
type Shutdown struct {
	Delay time.Duration
	Drain time.Duration
}

// New returns the configuration that an empty file stands for.
func New() Config {
	return Config{
		Mode:         Apply,
		Providers:    []string{"local"},
		Namespace:    "fairlead-system",
		Workers:      64,
		ResyncPeriod: 10 * time.Minute,
		Addresses:    Addresses{ReleaseDelay: 10 * time.Minute},
		Local:        Local{Pools: []string{"127.77.0.0/16"}},
		Metrics:      Metrics{Address: ":8443", Secure: true},
		Health:       Health{Address: ":8081"},
		LeaderElection: LeaderElection{
			Enabled:       true,
			Name:          "fairlead-controller",
			LeaseDuration: 15 * time.Second,
			RenewDeadline: 10 * time.Second,
			RetryPeriod:   2 * time.Second,
		},
		Log:      Log{Level: "info", Format: "text"},
		Shutdown: Shutdown{Drain: 30 * time.Second},
	}
}
