package proxy

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// headerTrials connections in a row that a member ends right after a PROXY
// header make the report say so.
const headerTrials = 3

// health is what is known of one member.
type health struct {
	// down and ejected are read by whoever chooses members: down is what
	// checks found, ejected what traffic did.
	down, ejected atomic.Bool
	// warming is when the member came back from a failure; nil: long ago.
	warming atomic.Pointer[time.Time]

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
	outlier     outlier
}

// standing is how fit for new traffic a member is.
type standing int

const (
	down    standing = iota // says a check
	ejected                 // says traffic
	serving
)

func (h *health) standing() standing {
	switch {
	case h.down.Load():
		return down
	case h.ejected.Load():
		return ejected
	default:
		return serving
	}
}

// verdict is the result of one check.
type verdict struct {
	// cause is why it failed; empty: it did not.
	cause string
	// slow: there was no answer at all, which may be our own fault.
	slow bool
	// final: no confirmation is needed.
	final bool
}

// observe takes one check result and returns whether the state changed, and
// whether results and state disagree now. The first failure of an unknown
// member and a final verdict count at once; otherwise as many results in a row
// as m says. mayGoDown is asked before silence takes the member out.
func (h *health) observe(v verdict, m model.Monitor, mayGoDown func() bool) (changed, disagree bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	next, need := model.MemberUp, m.MaxRetries
	if v.cause != "" {
		next, need = model.MemberDown, m.MaxRetriesDown
	}
	if h.state == next {
		h.differ, h.checked = 0, v.cause
		return false, false
	}
	h.differ++
	if h.state != "" && h.differ < need && !v.final {
		return false, true
	}
	if v.slow && !mayGoDown() {
		return false, true
	}
	if h.state == model.MemberDown {
		h.warm()
	}
	h.state, h.differ, h.checked = next, 0, v.cause
	h.down.Store(next == model.MemberDown)
	return true, false
}

// warm begins the slow start.
func (h *health) warm() {
	now := time.Now()
	h.warming.Store(&now)
}

// fullShare is the share of a member that is not in its slow start, in percent
// of its weight.
const fullShare = 100

// share returns how much of its weight the member gets now: from 1 to 100
// percent over the time of the slow start (LB-13).
func (h *health) share(slowStart time.Duration, now time.Time) int {
	since := h.warming.Load()
	if since == nil {
		return fullShare
	}
	passed := now.Sub(*since)
	if passed >= slowStart {
		h.warming.CompareAndSwap(since, nil)
		return fullShare
	}
	return max(1, int(fullShare*passed/slowStart))
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
	if h.ejected.Load() {
		r.Cause = h.outlier.text(r.Cause)
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
	if cause == "" {
		h.outlier.failures = 0
	}
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
