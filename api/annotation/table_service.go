package annotation

// controlOptions are about how Fairlead treats the Service as a whole.
func controlOptions() []Option {
	return []Option{
		{
			Name: ProviderName, Direction: In, Type: Enum, Allowed: []string{string(Local), string(OpenStack), string(BareMetal)},
			Default: "by spec.loadBalancerClass, or the configuration's defaultProvider",
			Support: support(yes(), planned(), planned()),
			Doc:     "Which provider serves a Service that names no load balancer class. A Service with a class is served by that class, and the option is not looked at. A Service that is being served keeps its provider until it is re-created.",
			Example: `fairlead.dev/provider: local`,
		},
		{
			Name: Paused, Direction: In, Type: Bool, Default: "false", Live: true,
			Support: support(yes(), planned(), planned()),
			Doc:     "Leave the load balancer as it is: what would be changed is planned and reported, and nothing is done, until the annotation is removed. Deleting a paused Service leaves its load balancer standing, and the Service waits for it.",
			Example: `fairlead.dev/paused: "true"`,
		},
		{
			Name: HostnameName, Aliases: occm("hostname"), Direction: In, Type: Hostname, Empty: EmptyUnset, Live: true,
			Default: "none: the status shows addresses",
			Support: support(yes(), planned(), planned()),
			Doc:     "The host name that the Service's status shows in the place of its addresses. Clients inside the cluster then resolve the name and come through the load balancer. Fairlead does not create the DNS record.",
			Example: `fairlead.dev/hostname: shop.example.com`,
		},
	}
}

// addressOptions are about which address a Service gets.
func addressOptions() []Option {
	return []Option{
		{
			Name: Address, Aliases: metalLB("loadBalancerIPs"), SpecField: "spec.loadBalancerIP",
			Direction: In, Type: Addresses, Live: true, Exposure: true,
			Default: "any free address of the provider's",
			Support: support(yes(), planned(), planned()),
			Doc:     "The address that the Service is to have, or two, one of each family, in the order in which the status is to show them. A request that cannot be met leaves a Service with an address where it is.",
			Example: `fairlead.dev/address: 127.77.0.10`,
		},
		{
			Name: AddressPool, Aliases: metalLB("address-pool"), Direction: In, Type: ID, Empty: EmptyUnset, Live: true,
			Default: "any pool that the Service may use",
			Support: support(unused("Its pools have no names."), unused("Networks and subnets take the place of pools."), planned()),
			Doc:     "The pool that the Service's address comes from. The pool's own conditions, which Services may use it, still hold.",
			Example: `fairlead.dev/address-pool: production`,
		},
		{
			Name: KeepAddress, Aliases: occm("keep-floatingip"), Direction: In, Type: Bool, Default: "false", Live: true,
			Support: support(planned(), planned(), planned()),
			Doc:     "Keep the address when the Service is deleted, or when it becomes internal, so that it can be asked for again. In an OpenStack cloud it is the floating IP that is kept.",
			Example: `fairlead.dev/keep-address: "true"`,
		},
		{
			Name: Internal, Aliases: []Alias{{Key: internalKey, Dialect: OCCM}}, Direction: In, Type: Bool, Live: true, Exposure: true,
			Default: "as the provider's configuration says; external without",
			Support: support(unused("Its addresses are those of this machine."), planned(), planned()),
			Doc:     "Give the Service no public address: it is reached within the private network only. Under the old key nothing but the exact words true and false counts, as ever, so that no Service becomes public, or internal, by being taken over.",
			Example: `fairlead.dev/internal: "true"`,
		},
		{
			Name: SourceRanges, Aliases: []Alias{{Key: sourceRangesKey, Dialect: Core}}, SpecField: "spec.loadBalancerSourceRanges",
			Direction: In, Type: Prefixes, Live: true, Exposure: true,
			Default: "everybody",
			Support: support(yes(), planned(), planned()),
			Doc:     "The networks that clients may come from. Once it is set, a client is refused when no range of its own family holds it: a list of IPv4 ranges admits nobody by IPv6. Established connections are not cut by a change.",
			Example: `fairlead.dev/source-ranges: 192.0.2.0/24,2001:db8::/32`,
		},
	}
}

// sharingOptions are about several Services at one address or load balancer.
func sharingOptions() []Option {
	return []Option{
		{
			Name: Share, Direction: In, Type: ID, Live: true,
			Default: "the address is the Service's own",
			Support: support(yes(), planned(), planned()),
			Doc:     "A word that Services of one namespace have in common when they may have one address between them, each with other ports.",
			Example: `fairlead.dev/share: web`,
		},
		{
			Name: AllowSharedIP, Aliases: metalLB("allow-shared-ip"), Direction: In, Type: Text, Empty: EmptyUnset, Live: true,
			Default: "the address is the Service's own",
			Support: support(yes(), unused("Services of one load balancer are named by load-balancer-id."), planned()),
			Doc:     "MetalLB's word for sharing an address. Unlike share it joins Services of all namespaces: whoever guesses the word may join. Where both are set, share is what counts.",
			Example: `metallb.io/allow-shared-ip: web`,
		},
		{
			Name: LoadBalancerID, Aliases: occm("load-balancer-id"), Direction: Both, Type: ID, Empty: EmptyUnset,
			Default: "a load balancer of the Service's own",
			Support: cloudOnly(),
			Doc:     "The id of the Octavia load balancer. Fairlead writes it; a Service that is created with it joins the load balancer of another Service.",
			Example: `loadbalancer.openstack.org/load-balancer-id: 6d3a2b0e-6a3c-4f0e-9d0a-0c5d0a4e7b11`,
		},
	}
}

// outputOptions are what Fairlead writes on a Service, apart from its status.
func outputOptions() []Option {
	return []Option{
		{
			Name: LoadBalancerAddress, Aliases: occm("load-balancer-address"), Direction: Both, Type: Addresses, Empty: EmptyUnset,
			Default: "written by Fairlead",
			Support: cloudOnly(),
			Doc:     "The address of the load balancer, where the OpenStack controller writes it too. A value that neither of them wrote is no more than a hint at the address that the Service had; to ask for one, set address.",
			Example: `loadbalancer.openstack.org/load-balancer-address: 203.0.113.7`,
		},
		{
			Name: IPAllocatedFromPool, Aliases: metalLB("ip-allocated-from-pool"), Direction: Out, Type: ID,
			Default: "written by Fairlead",
			Support: support(unused("Its pools have no names."), unused(""), planned()),
			Doc:     "The pool that the Service's address came from.",
			Example: `metallb.io/ip-allocated-from-pool: production`,
		},
		{
			Name: Observed, Direction: Out, Type: Text,
			Default: "written by Fairlead",
			Support: support(yes(), planned(), planned()),
			Doc:     "A fingerprint of what the Service asked for when its conditions were last written. A Service has no generation, so this tells a condition that has seen the last change from one that has not.",
			Example: `fairlead.dev/observed: 5c1f0a9be6d2`,
		},
	}
}
