package netio

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestWaitBroken(t *testing.T) {
	cases := map[string]struct {
		reason string
		do     func(peer, own *net.TCPConn) error
		broken bool
	}{
		"Reset": {
			reason: "a RST breaks a connection", broken: true,
			do: func(peer, _ *net.TCPConn) error { return Reset(peer) },
		},
		"ResetBehindBytes": {
			reason: "unread bytes do not hide a RST", broken: true,
			do: func(peer, _ *net.TCPConn) error {
				_, err := peer.Write([]byte("unread"))
				return errors.Join(err, Reset(peer))
			},
		},
		"Fin": {
			reason: "a FIN does not break it",
			do: func(peer, own *net.TCPConn) error {
				return errors.Join(peer.CloseWrite(), own.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
			},
		},
		"BothFins": {
			reason: "an orderly end does not break it, though the state is CLOSED then",
			do: func(peer, own *net.TCPConn) error {
				return errors.Join(peer.CloseWrite(), own.CloseWrite(), own.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
			},
		},
		"Bytes": {
			reason: "bytes are left alone",
			do: func(peer, own *net.TCPConn) error {
				_, err := peer.Write([]byte("unread"))
				return errors.Join(err, own.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			peer, own := pair(t)
			if err := tc.do(peer, own); err != nil {
				t.Fatal(err)
			}
			err := WaitBroken(own)
			if broken := CauseOf(err) == WasReset; broken != tc.broken {
				t.Errorf("%s: %v", tc.reason, err)
			}
			if !tc.broken && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: %v, want the deadline", tc.reason, err)
			}
		})
	}
}

func TestTakeReady(t *testing.T) {
	peer, own := pair(t)
	buf := make([]byte, 10)
	if n, err := TakeReady(own, buf); n != 0 || err != nil {
		t.Errorf("nothing was sent, got %d bytes, %v", n, err)
	}
	if _, err := peer.Write([]byte("early")); err != nil {
		t.Fatal(err)
	}
	deadline, n := time.Now().Add(limit), 0
	for n == 0 && time.Now().Before(deadline) {
		var err error
		if n, err = TakeReady(own, buf); err != nil {
			t.Fatal(err)
		}
	}
	if string(buf[:n]) != "early" {
		t.Errorf("got %q, want early", buf[:n])
	}
}

func TestProgress(t *testing.T) {
	peer, own := pair(t)
	if _, err := own.Write(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	unacked, acked := 1, uint64(0)
	for deadline := time.Now().Add(limit); unacked > 0 && time.Now().Before(deadline); {
		var err error
		if unacked, acked, err = Progress(own); err != nil {
			t.Fatal(err)
		}
	}
	if unacked != 0 || acked < 1000 {
		t.Errorf("%d bytes unacknowledged, %d acknowledged; want 0 and at least 1000", unacked, acked)
	}
	_ = peer
}

func TestBoundSilence(t *testing.T) {
	client, _ := pair(t)
	if err := BoundSilence(client, 7*time.Second); err != nil {
		t.Fatal(err)
	}
	var got int
	if err := control(client, func(fd int) (err error) {
		got, err = unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
		return err
	}); err != nil || got != 7000 {
		t.Errorf("TCP_USER_TIMEOUT is %d ms, %v; want 7000", got, err)
	}
}

// TestUD18DontFragmentIsOff: the kernel may fragment what we relay.
func TestUD18DontFragmentIsOff(t *testing.T) {
	listening, err := ListenUDP(netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	defer listening.Close()
	dialled, err := DialUDP(netip.MustParseAddrPort("127.0.0.1:9"))
	if err != nil {
		t.Fatal(err)
	}
	defer dialled.Close()
	for name, c := range map[string]*net.UDPConn{"listening": listening, "dialled": dialled} {
		raw, err := c.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var got int
		var opt error
		if err := raw.Control(func(fd uintptr) {
			got, opt = unix.GetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER)
		}); err != nil || opt != nil {
			t.Fatal(err, opt)
		}
		if got != unix.IP_PMTUDISC_DONT {
			t.Errorf("IP_MTU_DISCOVER of the %s socket is %d, want %d", name, got, unix.IP_PMTUDISC_DONT)
		}
	}
}

// TestUD20Buffers: a UDP socket has as much room as this machine allows, which
// the kernel doubles for its own needs (socket(7)).
func TestUD20Buffers(t *testing.T) {
	c, err := ListenUDP(netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), 0))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for option, file := range map[int]string{unix.SO_RCVBUF: "rmem_max", unix.SO_SNDBUF: "wmem_max"} {
		text, err := os.ReadFile("/proc/sys/net/core/" + file)
		if err != nil {
			t.Fatal(err)
		}
		most, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		var got int
		if cerr := raw.Control(func(fd uintptr) { got, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, option) }); cerr != nil || err != nil {
			t.Fatal(cerr, err)
		}
		if want := 2 * min(most, udpBuffer); got != want {
			t.Errorf("%s: %d bytes, want %d", file, got, want)
		}
	}
}
