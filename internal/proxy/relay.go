package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/fairlead-lb/fairlead/internal/netio"
)

// relay is the state of a session while bytes move.
type relay struct {
	began  time.Time
	lasted time.Duration
	// moved is the time of the last progress in either direction, as
	// nanoseconds since began.
	moved atomic.Int64
	// ended counts directions whose FIN has been passed on.
	ended atomic.Int32
	// running counts directions that are still being carried.
	running atomic.Int32
	// memberFirst says that the member ended or reset before the client did.
	memberFirst atomic.Bool
	// early is how many client bytes went out with the header.
	early    int
	received atomic.Int64 // from the member

	idle idleWatch
}

// carry starts to relay, until both directions have ended, or the session has.
func (x *session) carry() {
	x.cancel() // it was for connecting, and holds memory
	x.relay.began = time.Now()
	x.member.toMember.Add(uint64(x.relay.early))
	x.relay.idle.start(x)
	x.relay.running.Store(2)
	tasks := &x.service.proxy.tasks
	tasks.add(func(context.Context) { x.direct(x.client, x.upstream, ReasonMemberReset) })
	tasks.add(func(context.Context) { x.direct(x.upstream, x.client, ReasonClientReset) })
}

// direct carries one direction, and ends the session after the second.
func (x *session) direct(dst, src *net.TCPConn, broken Reason) {
	x.pump(dst, src, broken)
	if x.relay.running.Add(-1) > 0 {
		return
	}
	x.relay.idle.stop()
	x.relay.lasted = time.Since(x.relay.began)
	x.finish()
}

// pump carries one direction to its end. broken is the reason if src fails.
func (x *session) pump(dst, src *net.TCPConn, broken Reason) {
	opposite := ReasonClientReset
	if broken == ReasonClientReset {
		opposite = ReasonMemberReset
	}
	pump, err := netio.NewPump(dst, src, &x.service.proxy.buffers)
	for err == nil {
		if err = pump.Wait(); err != nil {
			break
		}
		n, failed := pump.Move()
		x.progress(dst, n)
		if failed != nil {
			x.fail(failed, opposite)
			return
		}
	}
	if !errors.Is(err, io.EOF) {
		x.fail(err, broken)
		return
	}
	x.halfClose(dst, broken)
	// Nothing more will be read from src, but its reset still ends the session.
	x.fail(netio.WaitBroken(src), broken)
}

// progress notes that bytes moved.
func (x *session) progress(dst *net.TCPConn, n int64) {
	if n <= 0 {
		return
	}
	x.touch()
	if dst == x.client {
		x.relay.received.Add(n)
		x.member.fromMember.Add(uint64(n))
	} else {
		x.member.toMember.Add(uint64(n))
	}
}

func (x *session) touch() { x.relay.moved.Store(int64(time.Since(x.relay.began))) }

// halfClose passes a FIN on; all bytes before it have been written. The second
// one ends the session.
func (x *session) halfClose(dst *net.TCPConn, from Reason) {
	x.touch()
	if x.relay.ended.Add(1) == 2 {
		x.end(ReasonDone) // closing dst sends the FIN
		return
	}
	if from == ReasonMemberReset {
		x.relay.memberFirst.Store(true)
	}
	// An error means that dst was reset; its own direction finds that out.
	_ = dst.CloseWrite()
	x.relay.idle.again(x.patience() / 2)
}

// fail ends the session because of an error, unless that is only the
// interruption of a session that has ended already.
func (x *session) fail(err error, why Reason) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return
	}
	if why == ReasonMemberReset && x.relay.ended.Load() == 0 {
		x.relay.memberFirst.Store(true)
	}
	x.end(why)
}
