//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// process is a running controller.
type process struct {
	cmd  *exec.Cmd
	done chan error
}

// startController builds the program, starts it with the rights of its own
// account and returns when it says that it is ready.
func (b *bench) startController(ctx context.Context) (*process, error) {
	program := filepath.Join(b.dir, "fairlead")
	if _, err := os.Stat(program); err != nil {
		fmt.Fprintln(os.Stderr, "bench: building the controller")
		if out, err := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", program, "./cmd/fairlead").CombinedOutput(); err != nil {
			return nil, fmt.Errorf("building the controller: %w\n%s", err, out)
		}
	}
	kubeconfig, err := b.cluster.ServiceAccountKubeconfig(account)
	if err != nil {
		return nil, err
	}
	health, err := freeAddress()
	if err != nil {
		return nil, err
	}
	config := filepath.Join(b.dir, "fairlead.yaml")
	text := fmt.Sprintf("apiVersion: fairlead.dev/v1alpha1\nkind: Configuration\nmetrics: {address: \"\"}\nhealth: {address: %q}\nlog: {level: warn}\nshutdown: {drain: 0s}\n", health)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("writing the configuration: %w", err)
	}
	log, err := os.OpenFile(filepath.Join(b.dir, "controller.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	cmd := exec.Command(program, "controller", "--kubeconfig", kubeconfig, "--config", config)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the controller: %w", err)
	}
	p := &process{cmd: cmd, done: make(chan error, 1)}
	go func() { p.done <- cmd.Wait() }()
	return p, poll(ctx, "the controller to be ready", func() (bool, error) { return p.ready(health, log.Name()) })
}

func (p *process) ready(health, log string) (bool, error) {
	select {
	case err := <-p.done:
		text, _ := os.ReadFile(log)
		return false, fmt.Errorf("the controller ended (%w):\n%s", err, text)
	default:
	}
	r, err := http.Get("http://" + health + "/readyz")
	if err != nil {
		return false, nil
	}
	defer func() { _ = r.Body.Close() }()
	return r.StatusCode == http.StatusOK, nil
}

// stop ends the controller gracefully.
func (p *process) stop(ctx context.Context) error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stopping the controller: %w", err)
	}
	select {
	case err := <-p.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// kill ends a controller that may have ended already.
func (p *process) kill() { _ = p.cmd.Process.Kill() }

// residentMiB is the process's resident memory in MiB (proc(5), VmRSS).
func (p *process) residentMiB() string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, _ := strconv.Atoi(strings.Fields(rest)[0])
			return strconv.Itoa(kib / 1024)
		}
	}
	return "unknown"
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("finding a free port: %w", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}
