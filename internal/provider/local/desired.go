package local

import (
	"slices"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// served returns the listeners as the data plane is to serve them: as they were
// asked for, since what an option is when nobody sets it is decided in one
// place, the data plane, which also says what it cannot do. A listener whose
// pool is not there (yet) has no place to send traffic to and is not served.
// Nothing to serve is nil, which makes the data plane forget the owner.
func served(o model.Observed) []model.Listener {
	var listeners []model.Listener
	for _, l := range o.Balancer.Listeners {
		if !slices.Contains(o.Poolless, l.Port) {
			listeners = append(listeners, l)
		}
	}
	return listeners
}
