//go:build !linux

package netio

import (
	"errors"
	"net"
	"os"
	"syscall"
)

// PassMost is how many descriptors one packet of Pass may carry.
const PassMost = 200

// Pass fails on this system.
func Pass(*net.UnixConn, string, []syscall.Conn) error {
	return errors.New("passing sockets: not possible on this system")
}

// Receive fails on this system.
func Receive(*net.UnixConn) (string, []*os.File, error) {
	return "", nil, errors.New("receiving sockets: not possible on this system")
}
