package devcluster

import (
	"context"
	"fmt"
	"os"
	"time"
)

// lock waits until this caller alone holds the lock file at path, and returns
// how to give it back. Before it waits for someone it calls busy, once. A
// process that dies gives its locks back.
func lock(ctx context.Context, path string, busy func()) (func(), error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening lock: %w", err)
	}
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		taken, err := tryLock(f)
		if taken {
			return func() { f.Close() }, nil
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		if busy != nil {
			busy()
			busy = nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("waiting for %s: %w", path, context.Cause(ctx))
		}
	}
}
