//go:build !unix

package devcluster

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
)

// tryLock refuses: nothing here can build or run a cluster without a Unix.
func tryLock(*os.File) (taken bool, err error) {
	return false, fmt.Errorf("running a development cluster on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}

func ownGroup() *syscall.SysProcAttr { return nil }
