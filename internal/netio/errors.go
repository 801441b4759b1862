package netio

import (
	"context"
	"errors"
	"os"
	"syscall"
)

// Cause says in one word what a socket error means, the same on every system.
type Cause string

// The causes.
const (
	// Unknown is every error that has no word of its own here.
	Unknown Cause = ""
	// AddressInUse: another socket has the address and port (EADDRINUSE).
	AddressInUse Cause = "address in use"
	// NotPermitted: the user may not bind this port (EACCES, EPERM).
	NotPermitted Cause = "not permitted"
	// AddressAbsent: the address is not on this machine, or no local port is
	// left to connect from (EADDRNOTAVAIL).
	AddressAbsent Cause = "address not available"
	// Refused: the peer has nobody listening (ECONNREFUSED).
	Refused Cause = "connection refused"
	// Unreachable: there is no way to the peer (EHOSTUNREACH, ENETUNREACH).
	Unreachable Cause = "unreachable"
	// WasReset: the peer ended the connection by RST (ECONNRESET, EPIPE).
	WasReset Cause = "connection reset"
	// TimedOut: no answer in time, from the peer or by a deadline of ours.
	TimedOut Cause = "timed out"
	// OutOfFiles: this process or machine has no file descriptor left
	// (EMFILE, ENFILE).
	OutOfFiles Cause = "out of file descriptors"
	// TooLong: the datagram is larger than the path or protocol allows
	// (EMSGSIZE).
	TooLong Cause = "message too long"
)

// CauseOf returns the cause of an error. It is Unknown for nil.
func CauseOf(err error) Cause {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return causeOfErrno(errno)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return TimedOut
	}
	return Unknown
}
