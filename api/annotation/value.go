package annotation

import (
	"net/netip"
	"time"
)

// Port is a port of a Service, as far as per-port values name it.
type Port struct {
	// Protocol is "TCP", "UDP" or "SCTP".
	Protocol string
	Number   uint16
	// Name is the Service's name for the port, or empty.
	Name string
}

// Values are the options in force. The zero value holds none. All accessors
// report set=false for an option that is not in force, and for one of another
// type. A value of a PerPort option is read through For.
type Values struct {
	texts map[Name]string
}

// Bool returns a Bool option.
func (v Values) Bool(n Name) (value, set bool) { return false, false }

// Int returns an Int option.
func (v Values) Int(n Name) (value int, set bool) { return 0, false }

// Duration returns a Milliseconds or Seconds option.
func (v Values) Duration(n Name) (value time.Duration, set bool) { return 0, false }

// Text returns the text of an option of any type, in its neutral form. An
// empty text that is set is a value: it stands in the way of a configured default.
func (v Values) Text(n Name) (value string, set bool) { return "", false }

// List returns the parts of a List option.
func (v Values) List(n Name) (value []string, set bool) { return nil, false }

// Addrs returns an Addresses option, in the order of the request.
func (v Values) Addrs(n Name) (value []netip.Addr, set bool) { return nil, false }

// Prefixes returns a Prefixes option, sorted and without host bits.
func (v Values) Prefixes(n Name) (value []netip.Prefix, set bool) { return nil, false }

// For returns the values as they are for one port: every PerPort option is
// resolved to what this port gets, so that the other accessors can be used.
func (v Values) For(p Port) Values { return v }
