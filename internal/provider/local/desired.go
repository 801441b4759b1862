package local

import (
	"cmp"
	"slices"
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// The numbers of a health monitor that leaves them open. With them a member
// that stops answering is down within 18 s and up again within 10 s.
const (
	monitorDelay          = 5 * time.Second
	monitorTimeout        = 3 * time.Second
	monitorMaxRetries     = 2
	monitorMaxRetriesDown = 3
)

// served returns the listeners as the data plane is to serve them. A listener
// whose pool is not there (yet) has no place to send traffic to and is not
// served.
func served(o model.Observed) []model.Listener {
	var listeners []model.Listener
	for _, l := range o.Balancer.Listeners {
		if !slices.Contains(o.Poolless, l.Port) {
			l.Pool.Monitor = monitor(l.Port.Protocol, l.Pool.Monitor)
			listeners = append(listeners, l)
		}
	}
	return listeners
}

// monitor fills in what a monitor leaves open. Nobody who asks for no monitor
// gets one, as in Octavia: members are ready pods or nodes, the data plane
// tries another one when a connection is refused, and a check is a connection
// that the application sees. A UDP member's own port answers no TCP or HTTP
// check, so without a port of its own such a check is left out.
func monitor(p model.Protocol, m model.Monitor) model.Monitor {
	if m.Type == "" || p == model.UDP && m.Port == 0 {
		return model.Monitor{}
	}
	m.Delay = cmp.Or(m.Delay, monitorDelay)
	m.Timeout = cmp.Or(m.Timeout, min(monitorTimeout, m.Delay))
	m.MaxRetries = cmp.Or(m.MaxRetries, monitorMaxRetries)
	m.MaxRetriesDown = cmp.Or(m.MaxRetriesDown, monitorMaxRetriesDown)
	return m
}
