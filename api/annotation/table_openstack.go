package annotation

// networkOptions are about where in the cloud the load balancer is.
func networkOptions() []Option {
	return []Option{
		{
			Name: SubnetID, Aliases: occm("subnet-id"), Direction: In, Type: ID, Empty: EmptyUnset,
			Default: "the class's, the cloud configuration's, or the nodes' subnet",
			Support: cloudOnly(),
			Doc:     "The subnet of the load balancer's own address (VIP), and of its members where nothing else says which.",
			Example: `fairlead.dev/subnet-id: 3b0f8c1e-2a55-4a83-8f0d-7d1f0b6a9c42`,
		},
		{
			Name: NetworkID, Aliases: occm("network-id"), Direction: In, Type: ID, Empty: EmptyUnset,
			Default: "the class's or the cloud configuration's",
			Support: cloudOnly(),
			Doc:     "The network of the load balancer's own address, for networks of which any subnet will do.",
			Example: `fairlead.dev/network-id: 0d9c4f7a-6c0e-4d38-9a1b-3e5f7a2c8b60`,
		},
		{
			Name: MemberSubnetID, Aliases: occm("member-subnet-id"), Direction: In, Type: ID, Empty: EmptyUnset,
			Default: "the class's, the cloud configuration's, or the load balancer's subnet",
			Support: cloudOnly(),
			Doc:     "The subnet in which the load balancer reaches its members.",
			Example: `fairlead.dev/member-subnet-id: 8e2d6b1c-5f4a-4b0e-a7c9-1d3f5b7e9a20`,
		},
		{
			Name: PortID, Aliases: occm("port-id"), Direction: In, Type: ID, Empty: EmptyUnset,
			Default: "a port that Octavia creates",
			Support: cloudOnly(),
			Doc:     "An existing Neutron port for the load balancer's own address. Subnet and network are then the port's.",
			Example: `fairlead.dev/port-id: 4c7e9a2b-1d3f-4e5a-8b6c-0f2d4b6e8a10`,
		},
		{
			Name: Class, Aliases: occm("class"), Direction: In, Type: ID, Empty: EmptyUnset,
			Default: "none",
			Support: cloudOnly(),
			Doc:     "The section [LoadBalancerClass] of the cloud configuration that networks and subnets are taken from. It has nothing to do with spec.loadBalancerClass. For an external Service the section's network and subnet win over annotations, for an internal one it is the other way round.",
			Example: `fairlead.dev/class: internet`,
		},
	}
}

// floatingOptions are about the load balancer's public address.
func floatingOptions() []Option {
	return []Option{
		{
			Name: FloatingNetworkID, Aliases: occm("floating-network-id"), Direction: In, Type: ID, Empty: EmptySet,
			Default: "the class's, the cloud configuration's, or the first external network",
			Support: cloudOnly(),
			Doc:     "The network of the floating IP. An empty value stands in the way of the configuration's, so that the first external network is taken.",
			Example: `fairlead.dev/floating-network-id: 9a1c3e5f-7b2d-4f6a-8c0e-2d4f6a8c0e13`,
		},
		{
			Name: FloatingSubnetID, Aliases: occm("floating-subnet-id"), Direction: In, Type: ID, Empty: EmptySet,
			Default: "the class's or the cloud configuration's",
			Support: cloudOnly(),
			Doc:     "The subnet of the floating IP. It wins over floating-subnet and floating-subnet-tags. An empty value stands in the way of the configuration's.",
			Example: `fairlead.dev/floating-subnet-id: 2f4a6c8e-0b1d-4e3f-a5c7-9e1b3d5f7a24`,
		},
		{
			Name: FloatingSubnet, Aliases: occm("floating-subnet"), Direction: In, Type: Text, Empty: EmptySet,
			Default: "the class's or the cloud configuration's",
			Support: cloudOnly(),
			Doc:     "A pattern for the name of the floating IP's subnet: with * and ?, or after ~ a regular expression for the whole name; ! in front of either excludes. One matching subnet after the other is tried. An empty value stands in the way of the configuration's.",
			Example: `fairlead.dev/floating-subnet: public-*`,
		},
		{
			Name: FloatingSubnetTags, Aliases: occm("floating-subnet-tags"), Direction: In, Type: Text, Empty: EmptySet,
			Default: "the class's or the cloud configuration's",
			Support: cloudOnly(),
			Doc:     "Tags of the floating IP's subnet: any of a comma-separated list; after & all of them; ! in front excludes. An empty value stands in the way of the configuration's.",
			Example: `fairlead.dev/floating-subnet-tags: public,fast`,
		},
	}
}

// cloudOptions are properties of Octavia's objects.
func cloudOptions() []Option {
	return []Option{
		{
			Name: FlavorID, Aliases: occm("flavor-id"), Direction: In, Type: ID, Empty: EmptySet,
			Default: "the cloud configuration's, or Octavia's",
			Support: cloudOnly(),
			Doc:     "The Octavia flavor, such as one with a standby amphora. It cannot be changed. An empty value stands in the way of the configuration's.",
			Example: `fairlead.dev/flavor-id: 7a9c1e3f-5b2d-4f6a-8c0e-2d4f6a8c0e35`,
		},
		{
			Name: AvailabilityZone, Aliases: occm("availability-zone"), Direction: In, Type: ID, Empty: EmptySet,
			Default: "the cloud configuration's, or Octavia's",
			Support: cloudOnly(),
			Doc:     "The Octavia availability zone. It cannot be changed. An empty value stands in the way of the configuration's.",
			Example: `fairlead.dev/availability-zone: az1`,
		},
		{
			Name: LoadBalancerTags, Aliases: occm("load-balancer-tags"), Direction: In, Type: List, Empty: EmptyUnset, Live: true,
			Default: "none but Fairlead's",
			Support: cloudOnly(),
			Doc:     "Tags to add to the load balancer. Tags are added only: one that is taken out of the list stays.",
			Example: `fairlead.dev/load-balancer-tags: team-a,billing-42`,
		},
		{
			Name: ListenerTags, Aliases: occm("listener-tags"), Direction: In, Type: List, Empty: EmptyUnset, Live: true,
			Default: "none but Fairlead's",
			Support: cloudOnly(),
			Doc:     "Tags to add to each listener. Tags are added only: one that is taken out of the list stays.",
			Example: `fairlead.dev/listener-tags: team-a`,
		},
		{
			Name: PoolTags, Aliases: occm("pool-tags"), Direction: In, Type: List, Empty: EmptyUnset, Live: true,
			Default: "none but Fairlead's",
			Support: cloudOnly(),
			Doc:     "Tags to add to each pool. Tags are added only: one that is taken out of the list stays.",
			Example: `fairlead.dev/pool-tags: team-a`,
		},
	}
}
