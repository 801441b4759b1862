package proxy

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/netio"
)

func TestTT03OctaviasNumbers(t *testing.T) {
	cases := map[string]struct {
		reason string
		in     model.Timeouts
		want   timeouts
		notes  int
	}{
		"TT01TT02Unset": {
			reason: "Octavia's defaults, and the proxy's own",
			want:   timeouts{client: 50 * time.Second, connect: 5 * time.Second, member: 50 * time.Second, idle: 2 * time.Minute, drain: 5 * time.Minute},
		},
		"Set": {
			reason: "what is set counts", in: model.Timeouts{ClientData: 1, MemberConnect: 2, MemberData: 3, TCPInspect: 4, UDPIdle: 5, Drain: 6},
			want: timeouts{client: 1, connect: 2, member: 3, idle: 5, drain: 6},
		},
		"TT06Negative": {
			reason: "a negative value is refused and said", in: model.Timeouts{ClientData: -1, MemberConnect: -1, MemberData: -1, UDPIdle: -1},
			want: timeouts{client: 50 * time.Second, connect: 5 * time.Second, member: 50 * time.Second, idle: 2 * time.Minute, drain: 5 * time.Minute}, notes: 4,
		},
		"LB15CutAtOnce": {
			reason: "below zero means something for the drain time", in: model.Timeouts{Drain: model.CutAtOnce},
			want: timeouts{client: 50 * time.Second, connect: 5 * time.Second, member: 50 * time.Second, idle: 2 * time.Minute, drain: -1},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, notes := resolveTimeouts(model.Listener{Port: tcpPort(8080), Timeouts: tc.in}, Config{}.completed())
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(timeouts{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if len(notes) != tc.notes {
				t.Errorf("%d notes, want %d: %+v", len(notes), tc.notes, notes)
			}
		})
	}
}

// TestTT04TT09AnyByteRefreshes is a download with a silent client, and an upload
// to a silent member: both go on much longer than the time-outs (incident 30).
func TestTT04TT09AnyByteRefreshes(t *testing.T) {
	t.Parallel()
	const steps, step, limit = 8, 200 * time.Millisecond, time.Second
	drip := func(c net.Conn) {
		tick := time.NewTicker(step)
		defer tick.Stop()
		for range steps {
			<-tick.C
			if _, err := io.WriteString(c, "."); err != nil {
				return
			}
		}
	}
	got := make(chan string, 2)
	downloads := backend(t, func(c *net.TCPConn) { drip(c) })
	uploads := backend(t, func(c *net.TCPConn) {
		all, _ := io.ReadAll(c)
		got <- string(all)
	})
	r := newRig(t, Config{})
	down, up := listener(tcpPort(8080), downloads), listener(tcpPort(8081), uploads)
	for _, l := range []*model.Listener{&down, &up} {
		l.Timeouts.ClientData, l.Timeouts.MemberData = limit, limit
	}
	r.set(down, up)
	client := r.dial(8081)
	go func() {
		drip(client)
		_ = client.CloseWrite()
	}()
	if s := mustFinish(t, r.dial(8080)); len(s) != steps {
		t.Errorf("the download ended after %d of %d bytes", len(s), steps)
	}
	if s := take(t, got); len(s) != steps {
		t.Errorf("the upload ended after %d of %d bytes", len(s), steps)
	}
}

func TestTT05SmallerOneCloses(t *testing.T) {
	cases := map[string]struct {
		reason string
		t      model.Timeouts
		want   Reason
	}{
		"Client": {reason: "the client's is smaller", t: model.Timeouts{ClientData: 50 * time.Millisecond, MemberData: time.Hour}, want: ReasonClientIdle},
		"Member": {reason: "the member's is smaller", t: model.Timeouts{ClientData: time.Hour, MemberData: 50 * time.Millisecond}, want: ReasonMemberIdle},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{})
			l := listener(tcpPort(8080), backend(t, func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) }))
			l.Timeouts = tc.t
			r.set(l)
			mustFinish(t, r.dial(8080))
			r.closedBy(tcpPort(8080), tc.want)
		})
	}
}

// TestTT08SlowReader reads little, but it reads: one step of the relay takes
// longer than the time-out, and acknowledgements alone keep the session.
func TestTT08SlowReader(t *testing.T) {
	t.Parallel()
	const limit = 2 * time.Second
	flood := make([]byte, 64<<20)
	member := backend(t, func(c *net.TCPConn) { _, _ = c.Write(flood) })
	r := newRig(t, Config{})
	l := listener(tcpPort(8080), member)
	l.Timeouts.ClientData, l.Timeouts.MemberData = limit, limit
	r.set(l)
	c := r.dial(8080)
	total, buf := 0, make([]byte, 12<<10)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < 3*limit; {
		<-tick.C
		n, err := c.Read(buf)
		if total += n; err != nil {
			t.Fatalf("cut after %d bytes: %v", total, err)
		}
	}
	_ = c.Close()
}

// TestTT08WriteStall is a client whose window stays shut while it goes on
// sending: its bytes do not excuse that it acknowledges nothing.
func TestTT08WriteStall(t *testing.T) {
	t.Parallel()
	member := backend(t, func(c *net.TCPConn) {
		go func() { _, _ = io.Copy(io.Discard, c) }()
		_, _ = c.Write(make([]byte, 64<<20))
	})
	r := newRig(t, Config{})
	l := listener(tcpPort(8080), member)
	l.Timeouts.ClientData, l.Timeouts.MemberData = time.Second, time.Minute
	r.set(l)
	c := r.dial(8080)
	eventually(t, "the relay resets the client", func() bool {
		_, err := c.Write([]byte("."))
		return netio.CauseOf(err) == netio.WasReset
	})
	r.closedBy(tcpPort(8080), ReasonClientIdle)
}
