//go:build !linux

package netio

import (
	"net"
	"os"
	"time"
)

func allowFragments(uintptr, string) error { return nil }

func keepAliveListener() net.ListenConfig {
	return net.ListenConfig{KeepAliveConfig: keepAlive()}
}

// BoundSilence makes the kernel give up on a peer that acknowledges nothing for
// this long, a window that stays shut included: TCP_USER_TIMEOUT (RFC 5482, tcp(7)).
// It does nothing where the system has no such option.
func BoundSilence(*net.TCPConn, time.Duration) error { return nil }

// Progress says how far the sending side of a connection has come: how many
// bytes the peer has not acknowledged yet, and how many it has since the
// beginning. Both are zero where the system cannot tell.
func Progress(*net.TCPConn) (unacked int, acked uint64, err error) { return 0, 0, nil }

// WaitBroken blocks until the read deadline: this system has no way to learn of
// a reset without reading.
func WaitBroken(c *net.TCPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	if err := raw.Read(func(uintptr) bool { return false }); err != nil {
		return err
	}
	return os.ErrDeadlineExceeded
}

// TakeReady returns 0: this system is not asked for bytes without waiting.
func TakeReady(*net.TCPConn, []byte) (int, error) { return 0, nil }
