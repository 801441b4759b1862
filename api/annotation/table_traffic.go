package annotation

// listenerOptions are about what each listener does.
func listenerOptions() []Option {
	return []Option{
		{
			Name: ProxyProtocol, Aliases: occm("proxy-protocol"), Direction: In, Type: Enum,
			Allowed: []string{"v1", "v2", "off"}, Synonyms: map[string]string{"true": "v1", "false": "off"}, OldOther: "off",
			PerPort: true, TCPOnly: true, OnUDP: []string{"v2", "off"}, Live: true,
			Default: "off",
			Support: support(yes(), planned(), planned()),
			Doc:     "Tell the pods who the client is, by a PROXY protocol header before each connection's first byte. The pods have to expect it: otherwise they answer every client with an error. A value for the whole Service means its TCP ports. A UDP port gets a header before each datagram when it is given v2 for itself; v1 knows no UDP. Clients inside the cluster come through the load balancer too, since the status says `ipMode: Proxy`. A change is for new connections.",
			Example: `fairlead.dev/proxy-protocol: off,https=v2,UDP/443=v2`,
		},
		{
			Name: ProxyProtocolUniqueID, Direction: In, Type: Bool, PerPort: true, Live: true,
			Default: "false",
			Support: support(yes(), unused("Octavia does not offer it."), planned()),
			Doc:     "Put an id of 16 random bytes into the header of PROXY protocol v2 (its field UNIQUE_ID), another one for each connection or UDP flow. It appears in the debug log too, so a line there and a line in the pod's log can be put together. v1 has no place for it.",
			Example: `fairlead.dev/proxy-protocol-unique-id: "true"`,
		},
		{
			Name: ConnectionLimit, Aliases: occm("connection-limit"), Direction: In, Type: Int, Min: 1, Max: longest, Unlimited: true, OldZero: "-1", Live: true,
			Default: "no limit of Fairlead's own",
			Support: support(yes(), planned(), planned()),
			Doc:     "How many connections each port may have at a time; -1 is no limit. Further clients wait, connected but unanswered, until another one leaves, unless connection-limit-mode says otherwise. Lowering the limit cuts no connection.",
			Example: `fairlead.dev/connection-limit: "2000"`,
		},
		{
			Name: ConnectionLimitMode, Direction: In, Type: Enum, Allowed: []string{"queue", "refuse"}, Live: true,
			Default: "queue",
			Support: support(yes(), unused("Octavia lets further clients wait."), planned()),
			Doc:     "What becomes of clients beyond the connection-limit: queue lets them wait, connected but unanswered, until another one leaves; refuse resets them at once, so that they can try elsewhere.",
			Example: `fairlead.dev/connection-limit-mode: refuse`,
		},
		{
			Name: XForwardedFor, Aliases: occm("x-forwarded-for"), Direction: In, Type: Bool,
			PerPort: true, TCPOnly: true, OnUDP: []string{"false"}, Live: true,
			Default: "false",
			Support: support(unused(neverHTTP), planned(), unused(neverHTTP)),
			Doc:     "Read the port's traffic as HTTP and add the header X-Forwarded-For to each request. A value for the whole Service means all its TCP ports, also those that carry TLS, which then break: give the ports their own values.",
			Example: `fairlead.dev/x-forwarded-for: http=true`,
		},
		{
			Name: DefaultTLSContainerRef, Aliases: occm("default-tls-container-ref"), Direction: In, Type: ID, Empty: EmptySet,
			PerPort: true, TCPOnly: true, Live: true,
			Default: "as the cloud configuration says; TLS is not ended without",
			Support: support(unused(neverHTTP), planned(), unused(neverHTTP)),
			Doc:     "End TLS at the load balancer with the certificate of this Barbican container or secret. A value for the whole Service means all its TCP ports. An empty value stands in the way of the configuration's.",
			Example: `fairlead.dev/default-tls-container-ref: https=https://keys.example.com/v1/containers/5f2c`,
		},
	}
}

// timeoutOptions are in milliseconds, as in Octavia.
func timeoutOptions() []Option {
	return []Option{
		{
			Name: TimeoutClientData, Aliases: occm("timeout-client-data"), Direction: In, Type: Milliseconds, Min: 1, Max: longest, OldZero: "2147483647", Live: true,
			Default: "50000, or what the cloud's operator set",
			Support: support(yes(), planned(), planned()),
			Doc:     "How long a client may be silent before its connection is closed. Bytes in either direction count; TCP keepalive does not. Give timeout-member-data the same value: the shorter one cuts.",
			Example: `fairlead.dev/timeout-client-data: "3600000"`,
		},
		{
			Name: TimeoutMemberData, Aliases: occm("timeout-member-data"), Direction: In, Type: Milliseconds, Min: 1, Max: longest, OldZero: "2147483647", Live: true,
			Default: "50000, or what the cloud's operator set",
			Support: support(yes(), planned(), planned()),
			Doc:     "How long a pod may be silent before the connection is closed. See timeout-client-data.",
			Example: `fairlead.dev/timeout-member-data: "3600000"`,
		},
		{
			Name: TimeoutMemberConnect, Aliases: occm("timeout-member-connect"), Direction: In, Type: Milliseconds, Min: 1, Max: longest, OldZero: "2147483647", Live: true,
			Default: "5000, or what the cloud's operator set",
			Support: support(yes(), planned(), planned()),
			Doc:     "How long a pod or node may take to accept a connection before another one is tried.",
			Example: `fairlead.dev/timeout-member-connect: "2000"`,
		},
		{
			Name: TimeoutTCPInspect, Aliases: occm("timeout-tcp-inspect"), Direction: In, Type: Milliseconds, Min: 0, Max: longest, Live: true,
			Default: "0",
			Support: support(unused("It looks into no connection."), planned(), unused("It looks into no connection.")),
			Doc:     "How long to wait for more bytes of a connection whose content is to be looked into. It has an effect only together with rules on the content.",
			Example: `fairlead.dev/timeout-tcp-inspect: "0"`,
		},
		{
			Name: UDPIdleTimeout, Direction: In, Type: Milliseconds, Min: 1000, Max: 86400000, Live: true,
			Default: "120000",
			Support: support(yes(), unused("Octavia does not offer it."), planned()),
			Doc:     "How long a UDP flow is remembered after its last datagram in either direction. A later datagram of the same client may reach another pod.",
			Example: `fairlead.dev/udp-idle-timeout: "300000"`,
		},
		{
			Name: DrainTimeout, Direction: In, Type: Milliseconds, Min: 0, Max: 86400000, Live: true,
			Default: "300000",
			Support: support(yes(), planned(), planned()),
			Doc:     "How long the connections of a pod or node that is being taken out may live on. It gets no new ones meanwhile. 0 cuts them at once.",
			Example: `fairlead.dev/drain-timeout: "600000"`,
		},
	}
}

// memberOptions are about who gets the traffic, and how much of it.
func memberOptions() []Option {
	return []Option{
		{
			Name: LBMethod, Aliases: occm("lb-method"), Direction: In, Type: Enum,
			Allowed: []string{"ROUND_ROBIN", "LEAST_CONNECTIONS", "SOURCE_IP", "SOURCE_IP_PORT"}, Live: true,
			Default: "ROUND_ROBIN, or what the cloud configuration says",
			Support: support(yes(), planned(), planned()),
			Doc:     "Who gets the next connection: each in turn, the one with the fewest, or always the same one for a client's address, or address and port.",
			Example: `fairlead.dev/lb-method: LEAST_CONNECTIONS`,
		},
		{
			Name: TargetType, Direction: In, Type: Enum, Allowed: []string{"auto", "pod", "node"}, Live: true,
			Default: "auto",
			Support: support(yes(), planned(), planned()),
			Doc:     "Where the load balancer sends traffic: straight to pods, which it has to be able to reach, or to node ports. auto is what the provider can do best. For local that is pods, unless the cluster has nodes with an InternalIP of the Service's families: such a cluster's pods are behind its nodes.",
			Example: `fairlead.dev/target-type: node`,
		},
		{
			Name: NodeSelector, Aliases: occm("node-selector"), Direction: In, Type: Selector, Empty: EmptySet, Live: true,
			Default: "all nodes that may take traffic",
			Support: support(yes(), planned(), planned()),
			Doc:     "Only nodes with these labels take traffic: a comma-separated list of key=value, and of key alone where any value will do. Changed labels are followed. While no node has them, the last ones stay. An empty value selects all nodes, whatever the configuration says.",
			Example: `fairlead.dev/node-selector: role=edge,zone`,
		},
		{
			Name: Weights, Direction: In, Type: Enum, Allowed: []string{"pods", "equal"}, Live: true,
			Default: "pods",
			Support: support(planned(), planned(), planned()),
			Doc:     "Under externalTrafficPolicy: Local, whether a node's share of the traffic follows the number of its ready pods, or is the same for each node that has any.",
			Example: `fairlead.dev/weights: equal`,
		},
	}
}

// monitorOptions are about the active health check, in Octavia's words.
func monitorOptions() []Option {
	return []Option{
		{
			Name: EnableHealthMonitor, Aliases: occm("enable-health-monitor"), Direction: In, Type: Bool, PerPort: true, Live: true,
			Default: "as the provider's configuration says; false without",
			Support: support(yes(), planned(), planned()),
			Doc:     "Check each pod or node by connecting to it, and send no traffic to one that does not answer. While none answers, all get traffic.",
			Example: `fairlead.dev/enable-health-monitor: "true"`,
		},
		{
			Name: HealthMonitorDelay, Aliases: occm("health-monitor-delay"), Direction: In, Type: Seconds, Min: 1, Max: 86400, PerPort: true, Live: true,
			Default: "5",
			Support: support(yes(), planned(), planned()),
			Doc:     "The time between two checks.",
			Example: `fairlead.dev/health-monitor-delay: "10"`,
		},
		{
			Name: HealthMonitorTimeout, Aliases: occm("health-monitor-timeout"), Direction: In, Type: Seconds, Min: 1, Max: 86400, PerPort: true, Live: true,
			Default: "3",
			Support: support(yes(), planned(), planned()),
			Doc:     "How long a check may take. It must not be longer than health-monitor-delay.",
			Example: `fairlead.dev/health-monitor-timeout: "2"`,
		},
		{
			Name: HealthMonitorMaxRetries, Aliases: occm("health-monitor-max-retries"), Direction: In, Type: Int, Min: 1, Max: 10, PerPort: true, Live: true,
			Default: "1",
			Support: support(yes(), planned(), planned()),
			Doc:     "How many checks in a row have to succeed before a member that is down gets traffic.",
			Example: `fairlead.dev/health-monitor-max-retries: "2"`,
		},
		{
			Name: HealthMonitorMaxRetriesDown, Aliases: occm("health-monitor-max-retries-down"), Direction: In, Type: Int, Min: 1, Max: 10, PerPort: true, Live: true,
			Default: "3",
			Support: support(yes(), planned(), planned()),
			Doc:     "How many checks in a row have to fail before a member that is up gets no more traffic.",
			Example: `fairlead.dev/health-monitor-max-retries-down: "2"`,
		},
	}
}
