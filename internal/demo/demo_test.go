//go:build linux

package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead-lb/fairlead/internal/devcluster/devclustertest"
	"github.com/fairlead-lb/fairlead/internal/testenv"
)

// patience bounds what takes seconds on an idle machine.
const patience = 3 * time.Minute

// TestDemo runs the program itself, against a real API server.
func TestDemo(t *testing.T) {
	devclustertest.Binary(t)
	_, err := machineAddress()
	testenv.Require(t, "an IPv4 address that is not loopback (ip address add 10.99.0.1/32 dev lo)", err == nil)
	program := filepath.Join(t.TempDir(), "fairlead")
	if out, err := exec.Command("go", "build", "-trimpath", "-o", program, "../../cmd/fairlead").CombinedOutput(); err != nil {
		t.Fatalf("building the program: %v\n%s", err, out)
	}

	t.Run("Once", func(t *testing.T) {
		p := start(t, program, "--once")
		if err := p.wait(); err != nil {
			t.Fatalf("the demo ended with %v\n%s", err, p.out)
		}
		for _, want := range []string{
			"$ fairlead plan ", "EXTERNAL-IP", "hello from hello-", "you are 127.9.9.9:", mistakeSentence,
			"Every step did what was promised",
		} {
			if !strings.Contains(p.out.String(), want) {
				t.Errorf("the demo does not show %q", want)
			}
		}
		p.leftNothing(t)
		if t.Failed() {
			t.Log(p.out)
		}
	})
	t.Run("Interrupted", func(t *testing.T) {
		p := start(t, program, "--once")
		p.until(t, "── 3 of")
		if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		var exit *exec.ExitError
		if err := p.wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
			t.Errorf("a demo that was cut short ended with %v, want exit code 1: it proved nothing", err)
		}
		p.leftNothing(t)
		p.cutOff(t)
	})
	t.Run("Killed", func(t *testing.T) {
		p := start(t, program)
		p.until(t, "── 3 of")
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = p.wait() // it says that it was killed
		p.cutOff(t)
	})
}

// process is a running demo.
type process struct {
	cmd  *exec.Cmd
	out  *buffer
	temp string
}

func start(t *testing.T, program string, flags ...string) *process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	p := &process{cmd: exec.CommandContext(ctx, program, append([]string{"demo"}, flags...)...), out: &buffer{}, temp: t.TempDir()}
	p.cmd.Env = append(os.Environ(), "TMPDIR="+p.temp)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.cmd.WaitDelay = endPatience
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *process) wait() error { return p.cmd.Wait() }

// until waits for a text in the output.
func (p *process) until(t *testing.T, text string) {
	t.Helper()
	err := until(t.Context(), patience, fmt.Sprintf("%q", text), func() error {
		return expect(p.out.String(), text, "the demo")
	})
	if err != nil {
		t.Fatal(err)
	}
}

// leftNothing fails the test if the demo's folder is still there.
func (p *process) leftNothing(t *testing.T) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(p.temp, "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("the demo left %v, %v", left, err)
	}
}

// cutOff waits until neither the API server nor the controller accepts any more.
func (p *process) cutOff(t *testing.T) {
	t.Helper()
	for _, pattern := range []string{`API server answers at https://(\S+)\.\n`, `metrics are at http://(\S+)/metrics`} {
		at := regexp.MustCompile(pattern).FindStringSubmatch(p.out.String())
		if at == nil {
			t.Fatalf("the demo does not say %s:\n%s", pattern, p.out)
		}
		err := until(t.Context(), patience, at[1]+" to be free", func() error {
			if c, err := net.Dial("tcp", at[1]); err == nil {
				_ = c.Close()
				return errors.New("something still accepts there")
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// buffer is a bytes.Buffer for several goroutines.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
