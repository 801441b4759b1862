// Package annotation is the contract between a Service and Fairlead: one table
// of options, each with its neutral name, its aliases, its type, what each
// provider does with it and its documentation, and a parser, texts and pages
// that are made from that table and from nothing else. It decides what a
// Service's annotations and spec fields ask for, and says in one sentence what
// is wrong with those that ask for nothing sensible. It never reads a cluster,
// a file, a clock or a configuration, never applies a provider's defaults, and
// never drops a value in silence.
package annotation

import (
	"slices"
	"strings"
)

// Prefix starts every neutral annotation key: "fairlead.dev/<option>".
const Prefix = "fairlead.dev/"

// Name is an option's neutral name, without the prefix.
type Name string

// Key returns the neutral annotation key, such as "fairlead.dev/proxy-protocol".
func (n Name) Key() string { return Prefix + string(n) }

// Provider names what balances (internal/provider.Traits.Name).
type Provider string

// The providers.
const (
	Local     Provider = "local"
	OpenStack Provider = "openstack"
	BareMetal Provider = "bare-metal"
)

// Providers returns every provider, in the order in which pages show them.
func Providers() []Provider { return []Provider{Local, OpenStack, BareMetal} }

// Dialect says whose rules a value is read by. An alias keeps the meaning that
// its own controller gave it, to the letter.
type Dialect string

// The dialects.
const (
	// Spec is a field of the Service's spec.
	Spec Dialect = "spec"
	// Neutral is a key under "fairlead.dev/": strict.
	Neutral Dialect = "neutral"
	// OCCM is the OpenStack cloud controller manager's: whatever it does not
	// understand means "not set".
	OCCM Dialect = "OCCM"
	// Core is an annotation that Kubernetes itself defines.
	Core Dialect = "Kubernetes"
	// MetalLB is MetalLB's under its present prefix "metallb.io/".
	MetalLB Dialect = "MetalLB"
	// MetalLBOld is MetalLB's under its first prefix; a key under the present
	// prefix wins over it, even when that is empty.
	MetalLBOld Dialect = "MetalLB, old prefix"
)

// Alias is a well-known key for an option.
type Alias struct {
	// Key is the whole annotation key.
	Key     string
	Dialect Dialect
}

// Direction says who writes an option's annotation.
type Direction string

// The directions.
const (
	// In: users write it.
	In Direction = "in"
	// Out: Fairlead writes it; whatever else it says is ignored.
	Out Direction = "out"
	// Both: Fairlead writes it, and a value that it did not write is a request.
	Both Direction = "both"
)

// Type is the type of an option's value.
type Type string

// The types. All values are annotation texts; the words here are those that
// documentation shows.
const (
	// Bool is what strconv.ParseBool takes.
	Bool Type = "bool"
	// Int is a decimal integer within Min and Max.
	Int Type = "int"
	// Milliseconds is an integer of milliseconds within Min and Max.
	Milliseconds Type = "milliseconds"
	// Seconds is an integer of seconds within Min and Max.
	Seconds Type = "seconds"
	// Enum is one of Allowed.
	Enum Type = "enum"
	// Text is any text.
	Text Type = "text"
	// ID is the id or name of an object elsewhere: a text without blanks.
	ID Type = "id"
	// List is a comma-separated list of texts.
	List Type = "list"
	// Hostname is a DNS name (RFC 1123), never an address.
	Hostname Type = "hostname"
	// Selector is a comma-separated list of "key=value" and "key".
	Selector Type = "selector"
	// Addresses is a comma-separated list of IP addresses, at most one a family.
	Addresses Type = "addresses"
	// Prefixes is a comma-separated list of CIDRs.
	Prefixes Type = "CIDRs"
)

// State is how far a provider honours an option.
type State string

// The states.
const (
	// Supported: the provider does what the option says.
	Supported State = "supported"
	// Planned: the provider will, and does not yet.
	Planned State = "planned"
	// Unused: the provider has no use for the option.
	Unused State = "not applicable"
)

// Support is what one provider does with an option.
type Support struct {
	State State
	// Test is the name of the Go test that proves a Supported state.
	Test string
	// Note is what is particular to this provider: a sentence, or empty.
	Note string
}

// Empty says what a value that is present but empty means.
type Empty string

// The meanings of an empty value.
const (
	// EmptyInvalid: it is a mistake.
	EmptyInvalid Empty = ""
	// EmptyUnset: it is the same as no value.
	EmptyUnset Empty = "unset"
	// EmptySet: it is a value, and stands in the way of a configured default.
	EmptySet Empty = "set"
)

// Option is one row of the table.
type Option struct {
	Name Name
	// Aliases are in the order of precedence: an earlier one wins.
	Aliases []Alias
	// SpecField is the Service field that says the same, such as
	// "spec.loadBalancerIP", or empty.
	SpecField string
	Direction Direction
	Type      Type
	// Min and Max bound a number, inclusively. Unlimited admits -1 besides.
	Min, Max  int
	Unlimited bool
	// OldZero is what a number's "0" under OpenStack's key is read as, where
	// Octavia takes 0 and the neutral form does not. OldOther is what any
	// unknown word of an Enum under that key is read as. Empty: it is invalid.
	OldZero  string
	OldOther string
	// Allowed are the words of an Enum. Synonyms are further words, each for
	// one of those.
	Allowed  []string
	Synonyms map[string]string
	// Empty is what an empty value means under the neutral key and, for texts,
	// under OpenStack's. Under every other alias it is EmptyUnset.
	Empty Empty
	// Default says, as text, what is done when the option is not set.
	Default string
	// Support holds one entry for each provider; see On.
	Support map[Provider]Support
	// Live tells that a change takes effect on a Service that is being served.
	Live bool
	// PerPort tells that single ports can be given values of their own.
	PerPort bool
	// TCPOnly tells that a value for the whole Service means its TCP ports, and
	// that no SCTP port can be given one. OnUDP are the values that a UDP port
	// can be given for itself.
	TCPOnly bool
	OnUDP   []string
	// Exposure tells that the option decides who can reach the Service, or at
	// which address: a new Service is not served while it is in doubt.
	Exposure bool
	// Since is the first version of Fairlead that knows the option.
	Since string
	// Doc is one paragraph. Example is a YAML line of an annotation.
	Doc     string
	Example string
}

// On returns what a provider does with the option. An unknown provider has no
// use for any.
func (o Option) On(p Provider) Support {
	if s, ok := o.Support[p]; ok {
		return s
	}
	return Support{State: Unused}
}

// Keys returns every annotation key of the option: the neutral one, then the
// aliases in the order of precedence.
func (o Option) Keys() []string {
	keys := []string{o.Name.Key()}
	for _, a := range o.Aliases {
		keys = append(keys, a.Key)
	}
	return keys
}

// Lookup finds an option by its neutral name, its neutral key or any alias.
func Lookup(nameOrKey string) (Option, bool) {
	if strings.Contains(nameOrKey, "/") && nameOrKey != sourceRangesKey && !underPrefix(nameOrKey) {
		return Option{}, false
	}
	for _, o := range rows() {
		if string(o.Name) == nameOrKey || slices.Contains(o.Keys(), nameOrKey) {
			return o, true
		}
	}
	return Option{}, false
}
