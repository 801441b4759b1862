//go:build unix

package devcluster

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes the lock of an open file, if no one holds it. The lock goes
// with the file's last descriptor.
func tryLock(f *os.File) (taken bool, err error) {
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return false, nil
	}
	return err == nil, err
}

// ownGroup gives a child a process group of its own: an interrupt at the
// terminal is for the parent, which then stops what it uses in order.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
