//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// patience bounds the start of a process.
const patience = 10 * time.Second

// process is a program that the benchmark started.
type process struct {
	cmd *exec.Cmd
	log string
	// done is closed at its end; then err says how it ended.
	done chan struct{}
	err  error
}

// start starts a program with its output in a file; its end is that of the
// benchmark at the latest.
func (b *bench) start(name string, argv ...string) (*process, error) {
	log := filepath.Join(b.dir, name+".log")
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", name, err)
	}
	cmd := exec.Command(b.niced(argv)[0], b.niced(argv)[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	err = cmd.Start()
	_ = out.Close()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p := &process{cmd: cmd, done: make(chan struct{}), log: log}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// niced returns the command line under nice(1), which keeps the process id.
func (b *bench) niced(argv []string) []string {
	if b.nice == 0 {
		return argv
	}
	return append([]string{"nice", "-n", strconv.Itoa(b.nice)}, argv...)
}

// self returns the command line of one of the benchmark's own processes.
func self(role string, spec any) ([]string, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("describing the process %s: %w", role, err)
	}
	return []string{program, role, string(text)}, nil
}

// kill ends a process and waits for its end; nginx ends its workers on SIGTERM.
func (p *process) kill() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(2 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// listens waits until somebody listens at an address.
func (p *process) listens(ctx context.Context, at netip.AddrPort) error {
	deadline := time.Now().Add(patience)
	for {
		c, err := net.DialTimeout("tcp", at.String(), time.Second)
		if err == nil {
			return c.Close()
		}
		select {
		case <-p.done:
			text, _ := os.ReadFile(p.log)
			return fmt.Errorf("waiting for %s: it ended: %w\n%s", at, errors.Join(p.err, err), text)
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waiting for %s: %w", at, err)
		}
	}
}

// pids are the process and its children (nginx's workers).
func (p *process) pids() []int {
	pid := p.cmd.Process.Pid
	all := []int{pid}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return all
	}
	for _, word := range strings.Fields(string(text)) {
		if n, err := strconv.Atoi(word); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// cpu is the processor time of the process and its children, user and system
// (proc(5), /proc/pid/stat; its unit is the hundredth of a second).
func (p *process) cpu() (time.Duration, error) {
	const utime, stime, tick = 11, 12, 10 * time.Millisecond
	var total time.Duration
	for _, pid := range p.pids() {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, fmt.Errorf("reading processor time: %w", err)
		}
		// The name, in brackets, may hold anything.
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		for _, i := range []int{utime, stime} {
			n, err := strconv.ParseInt(fields[i], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("reading processor time: %w", err)
			}
			total += time.Duration(n) * tick
		}
	}
	return total, nil
}

// resident is the memory of the process and its children in bytes, each shared
// page counted once in all (proc(5), Pss).
func (p *process) resident() (int64, error) {
	var total int64
	for _, pid := range p.pids() {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			return 0, fmt.Errorf("reading memory: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
				kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
				if err != nil {
					return 0, fmt.Errorf("reading memory: %w", err)
				}
				total += kib << 10
			}
		}
	}
	return total, nil
}

// freePort returns a port that is free for TCP and UDP at all the addresses.
func freePort(addresses ...netip.Addr) (uint16, error) {
	var err error
	for range 20 {
		var port uint16
		if port, err = pick(addresses[0]); err == nil && allFree(addresses, port) {
			return port, nil
		}
	}
	return 0, errors.Join(errors.New("finding a free port: none was free everywhere"), err)
}

func pick(a netip.Addr) (uint16, error) {
	l, err := net.Listen("tcp", netip.AddrPortFrom(a, 0).String())
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	at, err := netip.ParseAddrPort(l.Addr().String())
	return at.Port(), err
}

func allFree(addresses []netip.Addr, port uint16) bool {
	for _, a := range addresses {
		at := netip.AddrPortFrom(a, port)
		l, err := net.Listen("tcp", at.String())
		if err != nil {
			return false
		}
		_ = l.Close()
		u, err := net.ListenPacket("udp", at.String())
		if err != nil {
			return false
		}
		_ = u.Close()
	}
	return true
}
