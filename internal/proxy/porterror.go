package proxy

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/netio"
)

// The reasons of port errors. The first group means that the port is not
// served (at one address at least); the second that it is, but not quite as asked.
const (
	PortInUse               = "PortInUse"
	PortNotPermitted        = "PortNotPermitted"
	PortOutOfRange          = "PortOutOfRange"
	AddressNotOnThisMachine = "AddressNotOnThisMachine"
	AddressUnspecified      = "AddressUnspecified"
	ProtocolNotSupported    = "ProtocolNotSupported"
	ListenFailed            = "ListenFailed"
	ProxyStopped            = "ProxyStopped"

	AlgorithmNotSupported     = "AlgorithmNotSupported"
	TimeoutInvalid            = "TimeoutInvalid"
	ProxyProtocolNotSupported = "ProxyProtocolNotSupported"
	HealthMonitorInvalid      = "HealthMonitorInvalid"
	HealthMonitorNotSupported = "HealthMonitorNotSupported"
)

func bindError(port model.Port, at netip.AddrPort, offset int, err error) model.PortError {
	fault := model.PortError{Port: port}
	switch netio.CauseOf(err) {
	case netio.AddressInUse:
		fault.Reason = PortInUse
		fault.Message = fmt.Sprintf("port %d of %s is in use by another program: stop it or choose another address", at.Port(), at.Addr())
	case netio.NotPermitted:
		fault.Reason = PortNotPermitted
		fault.Message = fmt.Sprintf("port %d needs root here: run \"sysctl net.ipv4.ip_unprivileged_port_start=%d\" or set local.portOffset: %d in the configuration",
			at.Port(), at.Port(), max(offset, 8000))
	case netio.AddressAbsent:
		fault.Reason = AddressNotOnThisMachine
		fault.Message = fmt.Sprintf("address %s is not on this machine", at.Addr())
	default:
		fault.Reason = ListenFailed
		fault.Message = err.Error()
	}
	return fault
}

func offsetError(port model.Port, offset int) model.PortError {
	return model.PortError{
		Port: port, Reason: PortOutOfRange,
		Message: fmt.Sprintf("port %d with the offset %d is no port number: lower local.portOffset in the configuration", port.Number, offset),
	}
}

func protocolError(port model.Port) model.PortError {
	return model.PortError{
		Port: port, Reason: ProtocolNotSupported,
		Message: fmt.Sprintf("protocol %s of port %d cannot be relayed: use TCP or UDP", port.Protocol, port.Number),
	}
}

func unspecifiedError(port model.Port, a netip.Addr) model.PortError {
	return model.PortError{
		Port: port, Reason: AddressUnspecified,
		Message: fmt.Sprintf("UDP port %d cannot be served at %s, because replies must leave from the address that was asked: use an address of this machine", port.Number, a),
	}
}

func stoppedErrors(listeners []model.Listener) []model.PortError {
	faults := make([]model.PortError, len(listeners))
	for i, l := range listeners {
		faults[i] = model.PortError{Port: l.Port, Reason: ProxyStopped, Message: "the proxy has stopped"}
	}
	return faults
}

// joined makes one error of all that are known of a port: the first one's
// reason, every message once.
func joined(port model.Port, faults []model.PortError) model.PortError {
	if len(faults) == 0 {
		return model.PortError{}
	}
	var messages []string
	seen := map[string]bool{}
	for _, f := range faults {
		if !seen[f.Message] {
			seen[f.Message] = true
			messages = append(messages, f.Message)
		}
	}
	return model.PortError{Port: port, Reason: faults[0].Reason, Message: strings.Join(messages, "; ")}
}
