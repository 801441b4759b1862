package config

// Field is one setting of the file.
type Field struct {
	// Path leads to it, such as "local.pools".
	Path string
	// Type is the word that documentation shows.
	Type Type
	// Allowed says which values it takes: words, or a sentence.
	Allowed string
	// Doc is one paragraph.
	Doc string
	// at points to the field in a configuration: a *string, *Mode, *int,
	// *bool, *time.Duration or *[]string.
	at func(*Config) any
	// words are all values of a field that is one of several words.
	words []string
	// check says what is wrong with a value of the right type, or "". A list
	// is checked item by item.
	check func(value string) string
}

// Type is the type of a field's value.
type Type string

// The types.
const (
	Text     Type = "text"
	Word     Type = "word"
	Integer  Type = "integer"
	Boolean  Type = "boolean"
	Duration Type = "duration"
	List     Type = "list"
)

// Fields returns every field, in the order of the reference file. apiVersion
// and kind, which are no settings, are not among them.
func Fields() []Field {
	return append(append(generalFields(), backendFields()...), processFields()...)
}

func generalFields() []Field {
	return []Field{
		{
			Path: "mode", Type: Word, words: []string{string(Apply), string(Observe)},
			Doc: "Whether Fairlead acts. Under `observe` everything is read, planned and reported in conditions and events, and nothing else is written; so a takeover can be watched before it happens.",
			at:  func(c *Config) any { return &c.Mode },
		},
		{
			Path: "providers", Type: List, words: providerWords(),
			Doc: "Who may balance. Each provider serves the Services of the load balancer class `fairlead.dev/<provider>`.",
			at:  func(c *Config) any { return &c.Providers },
		},
		{
			Path: "defaultProvider", Type: Word, words: append([]string{""}, providerWords()...),
			Doc: "Who serves Services that name no load balancer class. Empty: such Services are left alone. It has to be one of `providers`.",
			at:  func(c *Config) any { return &c.DefaultProvider },
		},
		{
			Path: "namespace", Type: Text, Allowed: "the name of a namespace", check: checkNamespace,
			Doc: "The namespace of Fairlead's own records, address reservations and lease.",
			at:  func(c *Config) any { return &c.Namespace },
		},
		{
			Path: "serviceSelector", Type: Text, Allowed: "a label selector", check: checkSelector,
			Doc: "Only Services whose labels match are served, such as `fairlead=yes`. Empty: all of the classes above.",
			at:  func(c *Config) any { return &c.ServiceSelector },
		},
		{
			Path: "namespaceSelector", Type: Text, Allowed: "a label selector", check: checkSelector,
			Doc: "Only Services in namespaces whose labels match are served. Empty: all namespaces.",
			at:  func(c *Config) any { return &c.NamespaceSelector },
		},
		{
			Path: "workers", Type: Integer, Allowed: "1 to 1024", check: within(1, 1024),
			Doc: "How many Services are worked on at the same time. A worker mostly waits for a backend and costs next to nothing.",
			at:  func(c *Config) any { return &c.Workers },
		},
		{
			Path: "resyncPeriod", Type: Duration, Allowed: "10s to 24h", check: between("10s", "24h"),
			Doc: "How often each Service is compared with its backend although nothing seems to have changed, so that what was changed behind Fairlead's back is mended.",
			at:  func(c *Config) any { return &c.ResyncPeriod },
		},
	}
}

func backendFields() []Field {
	return []Field{
		{
			Path: "addresses.releaseDelay", Type: Duration, Allowed: "0s to 168h", check: between("0s", "168h"),
			Doc: "How long an address is held for its former Service after that is gone. Whoever re-creates the Service in time gets the address back, and no other Service meets its late clients.",
			at:  func(c *Config) any { return &c.Addresses.ReleaseDelay },
		},
		{
			Path: "local.pools", Type: List, Allowed: "CIDRs and ranges `first-last`", check: checkPool,
			Doc: "The addresses that the local provider gives out: of 127.0.0.0/8, or others of this machine.",
			at:  func(c *Config) any { return &c.Local.Pools },
		},
		{
			Path: "local.portOffset", Type: Integer, Allowed: "0 to 64511", check: within(0, 64511),
			Doc: "What is added to the number of each port that the local provider listens on, for machines where the low ports need root: with 8000, port 80 is served at 8080. The Service's status still names port 80.",
			at:  func(c *Config) any { return &c.Local.PortOffset },
		},
	}
}

func processFields() []Field {
	return append([]Field{
		{
			Path: "metrics.address", Type: Text, Allowed: "`host:port`, `:port`, or empty", check: checkListen,
			Doc: "Where metrics are served. Empty: nowhere.",
			at:  func(c *Config) any { return &c.Metrics.Address },
		},
		{
			Path: "metrics.secure", Type: Boolean,
			Doc: "Serve metrics over TLS, and only to who may read them: the API server is asked for each request (TokenReview, SubjectAccessReview).",
			at:  func(c *Config) any { return &c.Metrics.Secure },
		},
		{
			Path: "health.address", Type: Text, Allowed: "`host:port`, `:port`, or empty", check: checkListen,
			Doc: "Where `/healthz` and `/readyz` are served. Empty: nowhere.",
			at:  func(c *Config) any { return &c.Health.Address },
		},
		{
			Path: "log.level", Type: Word, words: []string{"debug", "info", "warn", "error"},
			Doc: "The least important messages that are logged. `info` is one line for each change in the world.",
			at:  func(c *Config) any { return &c.Log.Level },
		},
		{
			Path: "log.format", Type: Word, words: []string{"text", "json"},
			Doc: "The form of a line of the log.",
			at:  func(c *Config) any { return &c.Log.Format },
		},
		{
			Path: "shutdown.delay", Type: Duration, Allowed: "0s to 10m", check: between("0s", "10m"),
			Doc: "How long the process goes on as before, but not ready, when it is asked to end.",
			at:  func(c *Config) any { return &c.Shutdown.Delay },
		},
		{
			Path: "shutdown.drain", Type: Duration, Allowed: "0s to 1h", check: between("0s", "1h"),
			Doc: "How long established connections of the local provider may live on after that. New ones are refused meanwhile.",
			at:  func(c *Config) any { return &c.Shutdown.Drain },
		},
	}, electionFields()...)
}

func electionFields() []Field {
	return []Field{
		{
			Path: "leaderElection.enabled", Type: Boolean,
			Doc: "Elect one of several controllers by a Lease. Without it, a second controller must never run.",
			at:  func(c *Config) any { return &c.LeaderElection.Enabled },
		},
		{
			Path: "leaderElection.name", Type: Text, Allowed: "the name of an object", check: checkName,
			Doc: "The name of the Lease. The shipped role lets the controller write the default one only.",
			at:  func(c *Config) any { return &c.LeaderElection.Name },
		},
		{
			Path: "leaderElection.leaseDuration", Type: Duration, Allowed: "2s to 10m", check: between("2s", "10m"),
			Doc: "How long others wait for a silent leader. It has to be longer than `renewDeadline`.",
			at:  func(c *Config) any { return &c.LeaderElection.LeaseDuration },
		},
		{
			Path: "leaderElection.renewDeadline", Type: Duration, Allowed: "1s to 10m", check: between("1s", "10m"),
			Doc: "How long a leader tries to renew before it gives up. It has to be longer than 1.2 times `retryPeriod`.",
			at:  func(c *Config) any { return &c.LeaderElection.RenewDeadline },
		},
		{
			Path: "leaderElection.retryPeriod", Type: Duration, Allowed: "100ms to 5m", check: between("100ms", "5m"),
			Doc: "How long to wait between two attempts.",
			at:  func(c *Config) any { return &c.LeaderElection.RetryPeriod },
		},
	}
}

func providerWords() []string { return []string{"local", "openstack", "bare-metal"} }
