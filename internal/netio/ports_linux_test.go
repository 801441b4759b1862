package netio

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fairlead-lb/fairlead/internal/testenv"
)

// TestTL08PortsPerDestination dials in a network namespace with ten local
// ports: each of two destinations gets ten connections, because nothing binds a
// port before the destination is known, and the next one fails by its name.
func TestTL08PortsPerDestination(t *testing.T) {
	testenv.Require(t, "root, to make a network namespace", os.Geteuid() == 0)
	result := make(chan error, 1)
	go func() {
		// The thread is not given back: it dies in its namespace with the goroutine.
		runtime.LockOSThread()
		result <- func() error {
			if err := tenPorts(); err != nil {
				return err
			}
			for _, to := range []string{"127.0.0.1:80", "127.0.0.2:80"} {
				if n, err := dialUntilItFails(t, netip.MustParseAddrPort(to)); n != 10 || CauseOf(err) != AddressAbsent {
					return fmt.Errorf("%s: %d connections, then %w; want 10, then %s", to, n, err, AddressAbsent)
				}
			}
			return nil
		}()
	}()
	if err := <-result; err != nil {
		t.Error(err)
	}
}

// tenPorts moves the thread into a network namespace of its own, with loopback
// and ten local ports.
func tenPorts() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("making a network namespace: %w", err)
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_local_port_range", []byte("50000 50009"), 0); err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}

// dialUntilItFails connects to an address that it listens at, as often as it
// goes, up to 20 times.
func dialUntilItFails(t *testing.T, to netip.AddrPort) (int, error) {
	l, err := ListenTCP(to)
	if err != nil {
		return 0, err
	}
	defer l.Close()
	for n := range 20 {
		var c *net.TCPConn
		if c, err = DialTCP(t.Context(), to); err != nil {
			return n, err
		}
		defer c.Close()
	}
	return 20, nil
}
