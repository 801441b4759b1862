//go:build unix

package netio

import "syscall"

func causeOfErrno(errno syscall.Errno) Cause {
	switch errno {
	case syscall.EADDRINUSE:
		return AddressInUse
	case syscall.EACCES, syscall.EPERM:
		return NotPermitted
	case syscall.EADDRNOTAVAIL:
		return AddressAbsent
	case syscall.ECONNREFUSED:
		return Refused
	case syscall.EHOSTUNREACH, syscall.ENETUNREACH:
		return Unreachable
	case syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED:
		return WasReset
	case syscall.ETIMEDOUT:
		return TimedOut
	case syscall.EMFILE, syscall.ENFILE:
		return OutOfFiles
	case syscall.EMSGSIZE:
		return TooLong
	default:
		return Unknown
	}
}
