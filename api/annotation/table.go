package annotation

import (
	"cmp"
	"slices"
)

// Table returns every option, sorted by name. Each call returns a new copy.
func Table() []Option {
	options := rows()
	slices.SortFunc(options, func(a, b Option) int { return cmp.Compare(a.Name, b.Name) })
	return options
}

// rows returns every option, in the order in which they are written down.
func rows() []Option {
	options := slices.Concat(
		controlOptions(), addressOptions(), sharingOptions(),
		listenerOptions(), timeoutOptions(), memberOptions(), monitorOptions(),
		networkOptions(), floatingOptions(), cloudOptions(), outputOptions(),
	)
	for i := range options {
		options[i].Since = "0.1"
		if s, ok := options[i].Support[Local]; ok && s.State == Supported {
			s.Test = "TestOption/" + string(options[i].Name) + "/" + string(Local)
			options[i].Support[Local] = s
		}
	}
	return options
}

// The prefixes and keys of the neighbours.
const (
	occmPrefix       = "loadbalancer.openstack.org/"
	metalLBPrefix    = "metallb.io/"
	metalLBOldPrefix = "metallb.universe.tf/"
	cloudPrefix      = "service.beta.kubernetes.io/openstack-"
	internalKey      = cloudPrefix + "internal-load-balancer"
	sourceRangesKey  = "service.beta.kubernetes.io/load-balancer-source-ranges"
)

// longest is the greatest time-out in milliseconds: HAProxy's, some 24 days.
const longest = 1<<31 - 1

func occm(name string) []Alias { return []Alias{{Key: occmPrefix + name, Dialect: OCCM}} }

func metalLB(name string) []Alias {
	return []Alias{{Key: metalLBPrefix + name, Dialect: MetalLB}, {Key: metalLBOldPrefix + name, Dialect: MetalLBOld}}
}

// support says what the three providers do, in the order of Providers.
func support(local, openStack, bareMetal Support) map[Provider]Support {
	return map[Provider]Support{Local: local, OpenStack: openStack, BareMetal: bareMetal}
}

func yes() Support               { return Support{State: Supported} }
func planned() Support           { return Support{State: Planned} }
func unused(note string) Support { return Support{State: Unused, Note: note} }

// cloudOnly is the support of what exists only in an OpenStack cloud.
func cloudOnly() map[Provider]Support { return support(unused(""), planned(), unused("")) }

// neverHTTP says why an L4 proxy cannot do it.
const neverHTTP = "Connections are relayed as they are: HTTP is not read and TLS is not ended."
