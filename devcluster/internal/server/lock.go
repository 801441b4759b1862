package server

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

const lockFile = "lock"

// ErrRunning says that another process runs a cluster in the same folder.
var ErrRunning = errors.New("another devcluster runs there")

// lock makes this process the only one that runs a cluster in the working
// directory, until the returned file is closed or the process ends, however it
// ends.
func lock() (io.Closer, error) {
	f, err := os.OpenFile(lockFile, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening lock: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking folder: %w", err)
		}
		holder, err := io.ReadAll(f)
		if err != nil {
			return nil, fmt.Errorf("reading lock: %w", err)
		}
		return nil, fmt.Errorf("locking folder: %w (process %s)", ErrRunning, strings.TrimSpace(string(holder)))
	}
	if err := f.Truncate(0); err != nil {
		f.Close()
		return nil, fmt.Errorf("clearing lock: %w", err)
	}
	if _, err := fmt.Fprintln(f, os.Getpid()); err != nil {
		f.Close()
		return nil, fmt.Errorf("writing lock: %w", err)
	}
	return f, nil
}
