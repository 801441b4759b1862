//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// settings are fields of the configuration file, by name; see docs/configuration.md.
type settings map[string]any

// program is one `fairlead controller`, which may run several times in turn.
type program struct {
	suite   suite
	config  string
	health  string
	metrics string
	log     string

	cmd  *exec.Cmd
	done chan struct{}
	err  error // how it ended; valid once done is closed
}

// ownAddress returns an address of this run's own range of 127.0.0.0/8, so that
// two runs on one machine do not meet.
func ownAddress(third, fourth int) string {
	return fmt.Sprintf("127.%d.%d.%d", 96+os.Getpid()%96, third, fourth)
}

// autoPool is given out by itself, askPool is there to be asked for.
func autoPool() string { return ownAddress(0, 0) + "/20" }
func askPool() string  { return ownAddress(200, 0) + "/24" }

// start runs a controller with what differs from the suite's configuration, for
// as long as the test, and returns when it is ready.
func start(t *testing.T, differs settings) *program {
	t.Helper()
	p := prepare(t, differs)
	p.run(t)
	t.Cleanup(func() { p.stop(t) })
	return p
}

// prepare writes a configuration and starts nothing.
func prepare(t *testing.T, differs settings) *program {
	t.Helper()
	dir := t.TempDir()
	p := &program{
		suite: theSuite(t), config: filepath.Join(dir, "fairlead.yaml"), log: filepath.Join(dir, "log"),
		health: freeAddress(t), metrics: freeAddress(t),
	}
	config := settings{
		"apiVersion": "fairlead.dev/v1alpha1", "kind": "Configuration",
		"resyncPeriod": "1h", // so that nothing but an event mends what a test breaks
		"local":        settings{"pools": []string{autoPool(), askPool()}},
		"metrics":      settings{"address": p.metrics, "secure": false},
		"health":       settings{"address": p.health},
		"shutdown":     settings{"drain": "1s"},
		// A killed process leaves its Lease behind, which delays the next one.
		"leaderElection": settings{"enabled": false},
		"log":            settings{"level": "debug"},
	}
	maps.Copy(config, differs)
	text, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// run starts the process and waits until it is ready.
func (p *program) run(t *testing.T) {
	t.Helper()
	p.launch(t)
	eventually(t, "the controller is ready", func() error {
		select {
		case <-p.done:
			return fmt.Errorf("it ended: %w; its log:\n%s", p.err, p.tail())
		default:
		}
		_, err := p.get("http://" + p.health + "/readyz")
		return err
	})
}

// launch starts the process and does not wait.
func (p *program) launch(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	p.cmd = exec.Command(p.suite.Program, "controller", "--config", p.config, "--kubeconfig", p.suite.Account)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	// A test binary that is killed leaves nothing running.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cmd, done := p.cmd, make(chan struct{})
	p.done = done
	go func() {
		defer close(done)
		defer func() { _ = log.Close() }()
		p.err = cmd.Wait()
	}()
}

// kill ends the process as a crash would: it gets no chance to do anything.
func (p *program) kill(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.done
}

// stop asks the process to end and checks that it did so well.
func (p *program) stop(t *testing.T) {
	t.Helper()
	if p.ended() {
		p.checkLog(t)
		return
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	select {
	case <-p.done:
		if p.err != nil {
			t.Errorf("the controller ended with %v; its log:\n%s", p.err, p.tail())
		}
	case <-time.After(patience):
		t.Errorf("the controller does not end; its log:\n%s", p.tail())
		_ = p.cmd.Process.Kill()
		<-p.done
	}
	p.checkLog(t)
}

func (p *program) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// checkLog fails the test when a reconcile panicked, which the loop survives.
func (p *program) checkLog(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(p.log)
	if err != nil {
		t.Fatal(err)
	}
	if i := strings.Index(strings.ToLower(string(text)), "panic"); i >= 0 {
		t.Errorf("the controller panicked:\n%s", text[i:min(len(text), i+4000)])
	}
	if t.Failed() {
		t.Logf("the end of the controller's log:\n%s", p.tail())
		if dir := os.Getenv("FAIRLEAD_E2E_LOGS"); dir != "" {
			name := strings.ReplaceAll(t.Name(), "/", "_") + ".log"
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
				t.Error(err)
			}
		}
	}
}

func (p *program) tail() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-6000):])
}

func (p *program) get(url string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, response.Status, body)
	}
	return string(body), err
}

// counter reads the sum of a counter of the program, over all its labels but
// those that are given.
func (p *program) counter(name string, labels ...string) (float64, error) {
	body, err := p.get("http://" + p.metrics + "/metrics")
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for line := range strings.Lines(body) {
		if slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(line, l) }) {
			continue
		}
		if strings.HasPrefix(line, name+"{") || strings.HasPrefix(line, name+" ") {
			var value float64
			if _, err := fmt.Sscan(line[strings.LastIndex(line, " ")+1:], &value); err != nil {
				return 0, err
			}
			sum += value
		}
	}
	return sum, nil
}

// logged waits until the controller's log holds a message.
func (p *program) logged(t *testing.T, message string) {
	t.Helper()
	eventually(t, "the log says "+message, func() error {
		text, err := os.ReadFile(p.log)
		if err == nil && !strings.Contains(string(text), message) {
			err = errors.New("it does not")
		}
		return err
	})
}
