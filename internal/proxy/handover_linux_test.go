package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/netio"
)

// child is a proxy process.
type child struct {
	offer string
	// ended gives the outcome when the process is over.
	ended chan error
}

// startChild starts a proxy process and waits until it serves.
func startChild(t *testing.T, vip netip.Addr, member netip.AddrPort, inherit string) *child {
	t.Helper()
	c := &child{offer: filepath.Join(t.TempDir(), "s"), ended: make(chan error, 1)}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVIP+"="+vip.String(), childMember+"="+member.String(), childInherit+"="+inherit, childOffer+"="+c.offer)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewReader(out)
	line, err := said.ReadString('\n')
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(io.Discard, said)
		c.ended <- cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-over
	})
	if err != nil || line != "serving\n" {
		_ = cmd.Process.Kill()
		<-over
		t.Fatalf("the proxy process said %q (%v): %s", line, err, complaints.String())
	}
	return c
}

// TestTR03TR04Handover passes the sockets through a row of processes while
// clients connect without a pause: every one of them is served. A connection
// of the first process goes on, and that process ends with it (incidents 26 and 41).
func TestTR03TR04Handover(t *testing.T) {
	vip := testAddress(t)
	member := named(t, "a")
	udpBackend(t, member, signed("u"))
	first := startChild(t, vip, member, "")
	at := netip.AddrPortFrom(vip, 8080)
	old := dialTest(t, at)
	read(t, old, 1)

	load := newLoad(t, at)
	now := first
	var inodes []string
	const processes = 3
	for range processes {
		inodes = append(inodes, listeningInode(t, at))
		before := load.served.Load()
		next := startChild(t, vip, member, now.offer)
		eventually(t, "clients are served by the new process", func() bool { return load.served.Load() >= before+200 })
		if now != first {
			if err := <-now.ended; err != nil {
				t.Errorf("the process before ended with %v", err)
			}
		}
		now = next
	}
	load.stop()
	t.Logf("%d connections, none lost", load.served.Load())
	for _, inode := range inodes[1:] {
		if inode != inodes[0] {
			t.Errorf("the listening socket became another one: %v", inodes)
		}
	}
	if got := ask(t, (&rig{t: t, vip: vip}).udp(5353), "x"); got != "ux" {
		t.Errorf("UDP got %q, want ux", got)
	}
	write(t, old, "still")
	if got := read(t, old, 5); got != "still" {
		t.Errorf("the first process's connection echoed %q", got)
	}
	_ = old.Close()
	if err := <-first.ended; err != nil {
		t.Errorf("the first process ended with %v", err)
	}
}

// load are clients that connect, say something and leave, over and over.
type load struct {
	served atomic.Int64
	stop   func()
}

func newLoad(t *testing.T, at netip.AddrPort) *load {
	t.Helper()
	l := &load{}
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for ctx.Err() == nil {
				if err := visit(at); err != nil {
					t.Errorf("after %d connections: %v", l.served.Load(), err)
					return
				}
				l.served.Add(1)
			}
		})
	}
	l.stop = sync.OnceFunc(func() {
		cancel()
		clients.Wait()
	})
	t.Cleanup(l.stop)
	return l
}

// visit is one client's connection.
func visit(at netip.AddrPort) error {
	ctx, cancel := context.WithTimeout(context.Background(), patienceOfTests)
	defer cancel()
	c, err := netio.DialTCP(ctx, at)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patienceOfTests)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, "xyz"); err != nil {
		return err
	}
	buf := make([]byte, 4)
	if _, err := io.ReadFull(c, buf); err != nil {
		return err
	}
	if string(buf) != "axyz" {
		return fmt.Errorf("got %q, want axyz", buf)
	}
	// A reset leaves no TIME_WAIT, of which there would be too many.
	return netio.Reset(c)
}

// listeningInode returns that of the TCP socket that listens at an address.
func listeningInode(t *testing.T, at netip.AddrPort) string {
	t.Helper()
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	a := at.Addr().As4()
	local := fmt.Sprintf("%02X%02X%02X%02X:%04X", a[3], a[2], a[1], a[0], at.Port())
	for _, line := range strings.Split(string(table), "\n") {
		const state, inode, listen = 3, 9, "0A"
		if f := strings.Fields(line); len(f) > inode && f[1] == local && f[state] == listen {
			return f[inode]
		}
	}
	t.Fatalf("nobody listens at %s", at)
	return ""
}

// TestTR03HandoverFails: when the new process goes away before it serves, the
// old one goes on, with the sockets it had.
func TestTR03HandoverFails(t *testing.T) {
	r := newRig(t, Config{})
	r.set(listener(tcpPort(8080), named(t, "a")))
	before := r.socketOf(8080)
	mine, other := packetPair(t)
	received := make(chan error, 1)
	go func() {
		i, err := Inherit(other)
		if err == nil {
			err = i.closeAll()
		}
		received <- errors.Join(err, other.Close())
	}()
	if err := r.Handover(mine); !errors.Is(err, io.EOF) {
		t.Errorf("Handover returned %v, want the end of the connection", err)
	}
	if err := <-received; err != nil {
		t.Error(err)
	}
	if r.socketOf(8080) != before {
		t.Error("the listener has another socket")
	}
	if got := read(t, r.dial(8080), 1); got != "a" {
		t.Errorf("got %q, want a", got)
	}
}

// TestTR03UnwantedSockets: what the new process does not want is closed when the
// hand-over is complete; what it lacks is bound.
func TestTR03UnwantedSockets(t *testing.T) {
	r := newRig(t, Config{ShutdownGrace: -1})
	member := named(t, "a")
	r.set(listener(tcpPort(8080), member), listener(tcpPort(8081), member))
	mine, other := packetPair(t)
	handed := make(chan error, 1)
	go func() { handed <- r.Handover(mine) }()
	i, err := Inherit(other)
	if err != nil {
		t.Fatal(err)
	}
	next := &rig{Proxy: New(Config{Inherited: i}), t: t, owner: r.owner, vip: r.vip}
	next.set(listener(tcpPort(8080), member), listener(tcpPort(8082), member))
	next.run()
	if err := i.Complete(); err != nil {
		t.Fatal(err)
	}
	if err := <-handed; err != nil {
		t.Fatal(err)
	}
	r.stop()
	for port, served := range map[uint16]bool{8080: true, 8081: false, 8082: true} {
		c, err := netio.DialTCP(t.Context(), next.at(port))
		if served != (err == nil) {
			t.Errorf("port %d: %v, want served %v", port, err, served)
		}
		if err == nil {
			_ = c.Close()
		}
	}
}

// TestTR03MoreSocketsThanAPacketTakes passes several packets.
func TestTR03MoreSocketsThanAPacketTakes(t *testing.T) {
	const ports = netio.PassMost + 50
	r := newRig(t, Config{})
	var listeners []model.Listener
	for n := range ports {
		listeners = append(listeners, listener(tcpPort(uint16(9000+n))))
	}
	r.set(listeners...)
	mine, other := packetPair(t)
	handed := make(chan error, 1)
	go func() { handed <- r.Handover(mine) }()
	i, err := Inherit(other)
	if err != nil {
		t.Fatal(err)
	}
	if len(i.files) != ports {
		t.Errorf("%d sockets came through, want %d", len(i.files), ports)
	}
	if err := i.Complete(); err != nil {
		t.Fatal(err)
	}
	if err := <-handed; err != nil {
		t.Fatal(err)
	}
}

func TestTR03Strangers(t *testing.T) {
	for name, tc := range map[string]struct{ reason, text, want string }{
		"Version": {reason: "another version may mean something else", text: "fairlead sockets 2", want: "begins with"},
		"Count":   {reason: "a socket without a name is no use, nor the reverse", text: handoverVersion + "\nTCP 127.0.0.1:80", want: "a packet of 0 sockets"},
		"Noise":   {reason: "somebody else is at the other end", text: "GET / HTTP/1.1", want: "begins with"},
	} {
		t.Run(name, func(t *testing.T) {
			mine, other := packetPair(t)
			if err := netio.Pass(mine, tc.text, nil); err != nil {
				t.Fatal(err)
			}
			if _, err := Inherit(other); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v, want an error with %q", tc.reason, err, tc.want)
			}
		})
	}
}

// packetPair returns both ends of a connection that keeps packets apart.
func packetPair(t *testing.T) (*net.UnixConn, *net.UnixConn) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		c, err := net.FileConn(f)
		if err = errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		ends[i] = c.(*net.UnixConn)
		t.Cleanup(func() { _ = c.Close() })
		if err := c.SetDeadline(time.Now().Add(patienceOfTests)); err != nil {
			t.Fatal(err)
		}
	}
	return ends[0], ends[1]
}
