package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/netio"
)

// httpBackend answers every connection with these bytes after its request, and
// reports the request.
func httpBackend(t *testing.T, answer string) (netip.AddrPort, <-chan string) {
	t.Helper()
	asked := make(chan string, 100)
	return backend(t, func(c *net.TCPConn) {
		b := bufio.NewReader(c)
		var request strings.Builder
		for {
			line, err := b.ReadString('\n')
			request.WriteString(line)
			if err != nil || line == "\r\n" {
				break
			}
		}
		asked <- request.String()
		_, _ = io.WriteString(c, answer)
	}), asked
}

func httpPlan(path string, port uint16) checkPlan {
	return checkPlan{monitor: completedMonitor(model.Monitor{Type: "HTTP", Path: path, Port: port, Timeout: patienceOfTests, Delay: time.Hour})}
}

func TestHC08Statuses(t *testing.T) {
	cases := map[string]struct {
		reason string
		answer string
		spoken bool
		want   string
	}{
		"OK":       {reason: "200 is health", answer: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
		"NoBody":   {reason: "so is 204", answer: "HTTP/1.1 204 No Content\r\n\r\n"},
		"Redirect": {reason: "it is not followed, and somebody lives there", answer: "HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\n\r\n"},
		"NotFound": {reason: "the path is not served", answer: "HTTP/1.1 404 Not Found\r\n\r\n", want: "answered 404 to the health check"},
		"Error":    {reason: "the member says so itself", answer: "HTTP/1.0 500 Oops\r\n\r\n", want: "answered 500 to the health check"},
		"HC09Only200": {
			reason: "who speaks for a member says 200 or means no", spoken: true,
			answer: "HTTP/1.1 204 No Content\r\n\r\n", want: "answered 204 to the health check",
		},
		"HC09OK":     {reason: "and 200 is yes", spoken: true, answer: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
		"NotHTTP":    {reason: "something else listens there", answer: "SSH-2.0-x\r\n", want: `reading the answer to the health check: malformed HTTP response "SSH-2.0-x"`},
		"Silence":    {reason: "it hangs up without a word", want: "reading the answer to the health check: unexpected EOF"},
		"LongBody":   {reason: "no more of it is read than is decent", answer: "HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", 10<<20)},
		"LongHeader": {reason: "nor of the header", answer: "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 10<<20), want: "reading the answer to the health check: unexpected EOF"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			at, asked := httpBackend(t, tc.answer)
			plan := httpPlan("/ready?deep=1", 0)
			if tc.spoken {
				plan.monitor.Port = at.Port()
			}
			ctx, cancel := context.WithTimeout(t.Context(), patienceOfTests)
			defer cancel()
			if got := causeText(probe(ctx, target{at, plan}), time.Second); got != tc.want {
				t.Errorf("%s: %q, want %q", tc.reason, got, tc.want)
			}
			r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(<-asked)))
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%s %s %s host %s agent %s close %v", r.Method, r.RequestURI, r.Proto, r.Host, r.UserAgent(), r.Close)
			if want := "GET /ready?deep=1 HTTP/1.1 host " + at.String() + " agent fairlead-health-check close true"; got != want {
				t.Errorf("asked %s, want %s", got, want)
			}
		})
	}
}

// TestPPH06HeaderWithRequest: both come in one piece.
func TestPPH06HeaderWithRequest(t *testing.T) {
	first := make(chan string, 1)
	at := backend(t, func(c *net.TCPConn) {
		b := make([]byte, 4096)
		n, _ := c.Read(b)
		first <- string(b[:n])
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
	})
	plan := httpPlan("/", 0)
	plan.header = model.ProxyV2
	if err := probe(t.Context(), target{at, plan}); err != nil {
		t.Fatal(err)
	}
	got := take(t, first)
	if !strings.HasPrefix(got, "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00GET / HTTP/1.1\r\n") || !strings.HasSuffix(got, "\r\n\r\n") {
		t.Errorf("the first read got %q, want a LOCAL header and the whole request", got)
	}
}

func TestHC08SilentServerTimesOut(t *testing.T) {
	at := backend(t, func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := probe(ctx, target{at, httpPlan("/", 0)}); netio.CauseOf(err) != netio.TimedOut {
		t.Errorf("a server that accepts and says nothing: %v, want a time-out", err)
	}
}

func TestHC11UDPConnect(t *testing.T) {
	plan := checkPlan{monitor: completedMonitor(model.Monitor{Type: "UDP-CONNECT"})}
	deaf, answering := udpAddress(t), udpAddress(t)
	udpBackend(t, deaf, func([]byte, netip.AddrPort) []byte { return nil })
	udpBackend(t, answering, echo)
	for name, tc := range map[string]struct {
		reason string
		at     netip.AddrPort
		want   string
	}{
		"Closed":    {reason: "the kernel says that nobody listens", at: udpAddress(t), want: "connection refused"},
		"Silent":    {reason: "many protocols answer to nothing", at: deaf},
		"Answering": {reason: "an answer is more than enough", at: answering},
	} {
		t.Run(name, func(t *testing.T) {
			if got := causeText(probe(t.Context(), target{tc.at, plan}), time.Second); got != tc.want {
				t.Errorf("%s: %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}

// TestHC11UDPConnectHeader: a receiver of PROXY protocol gets a LOCAL header.
func TestHC11UDPConnectHeader(t *testing.T) {
	got := make(chan string, 1)
	at := udpAddress(t)
	udpBackend(t, at, func(b []byte, _ netip.AddrPort) []byte {
		got <- string(b)
		return b
	})
	plan := checkPlan{completedMonitor(model.Monitor{Type: "UDP-CONNECT"}), model.ProxyV2}
	if err := probe(t.Context(), target{at, plan}); err != nil {
		t.Fatal(err)
	}
	if want := "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"; take(t, got) != want {
		t.Errorf("the check was not a LOCAL header alone")
	}
}

// TestHC09OneAnswerIsEnough: a member that somebody else speaks for goes with
// the first 503 or refusal, and any other failure has to be confirmed.
func TestHC09OneAnswerIsEnough(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		port   uint16
		err    error
		want   model.MemberState
	}{
		"503":        {reason: "no local endpoint", port: 32000, err: statusError(503), want: model.MemberDown},
		"Refused":    {reason: "nobody speaks for it any more", port: 32000, err: syscall.ECONNREFUSED, want: model.MemberDown},
		"500":        {reason: "that is no word about the member", port: 32000, err: statusError(500), want: model.MemberUp},
		"Silence":    {reason: "neither is this", port: 32000, err: context.DeadlineExceeded, want: model.MemberUp},
		"TheOwn503":  {reason: "a member that is busy may be back at once", err: statusError(503), want: model.MemberUp},
		"OwnRefusal": {reason: "it may be restarting", err: syscall.ECONNREFUSED, want: model.MemberUp},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := New(Config{Random: func() uint64 { return 0 }})
				c := &checked{}
				p.checks.probe = func(context.Context, target) error {
					if c.fails.Load() {
						return tc.err
					}
					return nil
				}
				c.start(t, p, model.Monitor{Type: "HTTP", Port: tc.port}, 1)
				c.after(time.Second)
				c.fails.Store(true)
				if got := c.after(4 * time.Second); got != tc.want { // one check, at 4.5 s
					t.Errorf("%s: %s, want %s", tc.reason, got, tc.want)
				}
				c.stop()
			})
		})
	}
}

// TestHC10OneMonitor: TCP and UDP ports of one owner whose members have the
// same health server share its checks, and each hears the result.
func TestHC10OneMonitor(t *testing.T) {
	at, asked := httpBackend(t, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\n")
	r := newRig(t, Config{Random: func() uint64 { return 0 }})
	var listeners []model.Listener
	for i, p := range []model.Port{tcpPort(8080), tcpPort(8081), udpPort(5353)} {
		l := listener(p, netip.AddrPortFrom(at.Addr(), uint16(30000+i)))
		l.Pool.Monitor = model.Monitor{Type: "HTTP", Port: at.Port(), Path: "/healthz", Delay: time.Hour, Timeout: patienceOfTests}
		listeners = append(listeners, l)
	}
	r.set(listeners...)
	eventually(t, "all three ports know", func() bool {
		for _, h := range r.State(r.owner).Health {
			if h.Members[0].State != model.MemberDown {
				return false
			}
		}
		return true
	})
	// Whoever joins later asks once more at once, so there may be one more than one.
	if n := len(asked); n > 3 {
		t.Errorf("the health server was asked %d times for three ports", n)
	}
	r.mu.Lock()
	loops := len(r.checks.byTarget)
	r.mu.Unlock()
	if loops != 1 {
		t.Errorf("%d loops of checks for one target, want 1", loops)
	}
	// Each port leaves alone; the last one ends the checks.
	r.set(listeners[0], listeners[2])
	r.set(listener(tcpPort(8080), at))
	r.checks.mu.Lock()
	defer r.checks.mu.Unlock()
	if n := len(r.checks.byTarget); n != 0 {
		t.Errorf("%d targets are checked when nobody asks any more", n)
	}
}

// TestHC12CheckComesFromWhereTrafficDoes compares the addresses and headers
// that a member sees.
func TestHC12CheckComesFromWhereTrafficDoes(t *testing.T) {
	type visit struct {
		From   netip.Addr
		Header byte
	}
	visits := make(chan visit, 10)
	at := backend(t, func(c *net.TCPConn) {
		header := make([]byte, 13)
		if _, err := io.ReadFull(c, header); err == nil {
			visits <- visit{netio.Remote(c).Addr(), header[12] & 0xf0}
		}
		_, _ = io.Copy(io.Discard, c)
	})
	r := newRig(t, Config{Random: func() uint64 { return 0 }})
	l := listener(tcpPort(8080), at)
	l.Pool.ProxyProtocol = model.ProxyV2
	l.Pool.Monitor = model.Monitor{Type: "TCP", Delay: time.Hour, Timeout: patienceOfTests}
	r.set(l)
	check := take(t, visits)
	r.dial(8080)
	traffic := take(t, visits)
	if diff := cmp.Diff(traffic, check, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("traffic and check differ (-traffic +check):\n%s", diff)
	}
}

// TestHC15StandStill: when this process stood still during a check, silence
// says nothing.
func TestHC15StandStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{Random: func() uint64 { return 0 }})
		c := &checked{}
		p.checks.probe = func(context.Context, target) error {
			if c.fails.Load() {
				time.Sleep(10 * time.Second) // the deadline was 3 s: nobody ran meanwhile
				return context.DeadlineExceeded
			}
			return nil
		}
		c.start(t, p, model.Monitor{Type: "TCP"}, 3)
		c.after(time.Second)
		c.fails.Store(true)
		if got := c.after(time.Minute); got != model.MemberUp {
			t.Errorf("after a minute of standing still: %s, want up", got)
		}
		c.stop()
	})
}

// TestHC15SilenceEverywhere: members that fall silent together go half by half,
// and are used again when all have gone (LB-11). An answer that refuses is no
// silence.
func TestHC15SilenceEverywhere(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		err    error
		want   []int // how many are down after the third failure, and each second later
	}{
		"Silent":  {reason: "that may be our own fault", err: context.DeadlineExceeded, want: []int{3, 6}},
		"Refused": {reason: "their kernels answered", err: syscall.ECONNREFUSED, want: []int{6, 6}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := New(Config{Random: func() uint64 { return 0 }})
				c := &checked{}
				p.checks.probe = func(context.Context, target) error {
					if c.fails.Load() {
						return tc.err
					}
					return nil
				}
				c.start(t, p, model.Monitor{Type: "TCP"}, 6)
				c.after(time.Second)
				c.fails.Store(true)
				c.after(4500*time.Millisecond + 900*time.Millisecond - time.Millisecond) // checks at 4.5, 5.4, 6.3 s
				for i, want := range tc.want {
					c.after(time.Second)
					down := 0
					for _, m := range c.service.snapshot.Load().members {
						if m.health.down.Load() {
							down++
						}
					}
					if down != want {
						t.Errorf("%s: %d of 6 down after step %d, want %d", tc.reason, down, i, want)
					}
				}
				if got := c.service.usable(c.service.snapshot.Load(), nil, time.Now()); len(got) != 6 {
					t.Errorf("%d members are usable when all are down, want 6", len(got))
				}
				c.stop()
			})
		})
	}
}
