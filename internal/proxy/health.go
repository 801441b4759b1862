package proxy

import (
	"net/netip"
	"sync"
	"sync/atomic"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// headerTrials connections in a row that a member ends right after a PROXY
// header make the report say so.
const headerTrials = 3

// health is what is known of one member.
type health struct {
	// down is read by whoever chooses members.
	down atomic.Bool

	mu sync.Mutex
	// state is that of the active checks; it is unknown until the first
	// result, and unknown counts as up.
	state model.MemberState
	// differ counts results in a row that contradict the state.
	differ int
	// checked and refused are the causes that checks and traffic have given.
	checked, refused string
	// headerDrops counts connections in a row that ended right after the header.
	headerDrops int
}

// observe takes one check result and returns whether the state changed, and
// whether results and state disagree now. The first failure of an unknown
// member counts at once; otherwise as many results in a row as m says.
func (h *health) observe(cause string, m model.Monitor) (changed, disagree bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	next, need := model.MemberUp, m.MaxRetries
	if cause != "" {
		next, need = model.MemberDown, m.MaxRetriesDown
	}
	if h.state == next {
		h.differ, h.checked = 0, cause
		return false, false
	}
	h.differ++
	if h.state != "" && h.differ < need {
		return false, true
	}
	h.state, h.differ, h.checked = next, 0, cause
	h.down.Store(next == model.MemberDown)
	return true, false
}

// forget returns to the state of a member that is not checked.
func (h *health) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state, h.differ, h.checked = "", 0, ""
	h.down.Store(false)
}

// report returns the state with its cause: that of the checks, else what
// traffic has met.
func (h *health) report(a netip.AddrPort) model.MemberHealth {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := model.MemberHealth{Address: a, State: h.state, Cause: h.checked}
	if r.State == "" {
		r.State = model.MemberUnknown
	}
	if r.Cause == "" {
		r.Cause = h.refused
	}
	if r.Cause == "" && h.headerDrops >= headerTrials {
		r.Cause = "closes the connection right after the PROXY header: it does not seem to expect PROXY protocol; " +
			"turn it on there, or turn the option proxy-protocol off"
	}
	return r
}

// refuse notes why traffic could not reach the member; empty: it could. It
// returns whether that is news.
func (h *health) refuse(cause string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	news := h.refused != cause
	h.refused = cause
	return news
}

// judgeHeader notes how a connection with a PROXY header went, and returns
// whether the report is another one now.
func (h *health) judgeHeader(dropped bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.headerDrops
	h.headerDrops++
	if !dropped {
		h.headerDrops = 0
	}
	return (before >= headerTrials) != (h.headerDrops >= headerTrials)
}
