package netio

import (
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// allowFragments turns path MTU discovery off for IPv4 (ip(7)). IPv6 needs
// nothing: the kernel fragments at the source to the path MTU it knows.
func allowFragments(fd uintptr, network string) error {
	if network != "udp4" {
		return nil
	}
	err := unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DONT)
	return os.NewSyscallError("setsockopt IP_MTU_DISCOVER", err)
}

// keepAliveListener sets keepalive on the listening socket, from which each
// connection inherits it (tcp(7)), instead of on one connection after the other.
func keepAliveListener() net.ListenConfig {
	return net.ListenConfig{KeepAlive: -1, Control: func(_, _ string, raw syscall.RawConn) error {
		var opt error
		if err := raw.Control(func(fd uintptr) { opt = setKeepAlive(int(fd)) }); err != nil {
			return err
		}
		return opt
	}}
}

func setKeepAlive(fd int) error {
	k := keepAlive()
	for _, o := range []struct{ level, name, value int }{
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, int(k.Idle.Seconds())},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, int(k.Interval.Seconds())},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, k.Count},
	} {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return os.NewSyscallError("setsockopt keepalive", err)
		}
	}
	return nil
}

// BoundSilence makes the kernel give up on a peer that acknowledges nothing for
// this long, a window that stays shut included: TCP_USER_TIMEOUT (RFC 5482, tcp(7)).
// It does nothing where the system has no such option.
func BoundSilence(c *net.TCPConn, d time.Duration) error {
	return control(c, func(fd int) error {
		err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(d.Milliseconds()))
		return os.NewSyscallError("setsockopt TCP_USER_TIMEOUT", err)
	})
}

// Progress says how far the sending side of a connection has come: how many
// bytes the peer has not acknowledged yet, and how many it has since the
// beginning. Both are zero where the system cannot tell.
func Progress(c *net.TCPConn) (unacked int, acked uint64, err error) {
	err = control(c, func(fd int) error {
		n, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
		if err != nil {
			return os.NewSyscallError("ioctl SIOCOUTQ", err)
		}
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			return os.NewSyscallError("getsockopt TCP_INFO", err)
		}
		unacked, acked = n, info.Bytes_acked
		return nil
	})
	return unacked, acked, err
}

// WaitBroken blocks until the connection has failed (the peer's RST, or the
// kernel gave up) and returns that error; bytes and FIN that arrive meanwhile
// are left alone. It ends with os.ErrDeadlineExceeded at the read deadline.
// No other read may be in progress.
func WaitBroken(c *net.TCPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var broken error
	err = raw.Read(func(fd uintptr) bool {
		// The state alone would not do: a connection that both sides ended
		// in order is CLOSED as well, but without an error.
		n, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		if err == nil && n != 0 {
			err = syscall.Errno(n)
		}
		broken = os.NewSyscallError("waiting for the peer", err)
		return broken != nil
	})
	if err != nil {
		return err
	}
	return broken
}

// TakeReady reads what has already arrived into buf without waiting. It returns
// 0 when nothing has, or when the stream has ended: the next read says which.
func TakeReady(c *net.TCPConn, buf []byte) (n int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var read error
	err = raw.Read(func(fd uintptr) bool {
		n, _, read = unix.Recvfrom(int(fd), buf, unix.MSG_DONTWAIT)
		return true
	})
	if read == unix.EAGAIN {
		read = nil
	}
	if err == nil {
		err = os.NewSyscallError("recvfrom", read)
	}
	return max(n, 0), err
}

func control(c *net.TCPConn, do func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var opt error
	if err := raw.Control(func(fd uintptr) { opt = do(int(fd)) }); err != nil {
		return err
	}
	return opt
}
