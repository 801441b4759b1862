//go:build unix

package netio

import (
	"fmt"
	"syscall"
)

// OpenFiles returns how many file descriptors this process may have. The Go
// runtime has already raised the soft limit to the hard one.
func OpenFiles() (uint64, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("reading the limit of open files: %w", err)
	}
	return uint64(limit.Cur), nil //nolint:unconvert // it is signed on FreeBSD
}
