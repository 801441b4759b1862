package netio

import "syscall"

// The Winsock error numbers; package syscall's EADDRINUSE and its like are not
// what the system returns here.
const (
	wsaEACCES        syscall.Errno = 10013
	wsaEMFILE        syscall.Errno = 10024
	wsaEMSGSIZE      syscall.Errno = 10040
	wsaEADDRINUSE    syscall.Errno = 10048
	wsaEADDRNOTAVAIL syscall.Errno = 10049
	wsaENETUNREACH   syscall.Errno = 10051
	wsaECONNABORTED  syscall.Errno = 10053
	wsaECONNRESET    syscall.Errno = 10054
	wsaETIMEDOUT     syscall.Errno = 10060
	wsaECONNREFUSED  syscall.Errno = 10061
	wsaEHOSTUNREACH  syscall.Errno = 10065
)

func causeOfErrno(errno syscall.Errno) Cause {
	switch errno {
	case wsaEADDRINUSE:
		return AddressInUse
	case wsaEACCES:
		return NotPermitted
	case wsaEADDRNOTAVAIL:
		return AddressAbsent
	case wsaECONNREFUSED:
		return Refused
	case wsaEHOSTUNREACH, wsaENETUNREACH:
		return Unreachable
	case wsaECONNRESET, wsaECONNABORTED:
		return WasReset
	case wsaETIMEDOUT:
		return TimedOut
	case wsaEMFILE:
		return OutOfFiles
	case wsaEMSGSIZE:
		return TooLong
	default:
		return Unknown
	}
}
