package devcluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

const (
	reportEvery = 15 * time.Second
	// keptLines is how many lines of the compiler's words an error repeats.
	keptLines = 20
	// stopTime is how long the go command has to end its compilers.
	stopTime = 10 * time.Second
)

func goToolchain() toolchain {
	return toolchain{describe: describeGo, compile: compileWithGo}
}

// describeGo names the go command that would build in source, its target and
// the flags, all of which change the binary.
func describeGo(ctx context.Context, source string) (string, error) {
	text, err := goOutput(ctx, source, "env", "GOVERSION", "GOOS", "GOARCH", "GOFLAGS")
	if err != nil {
		return "", fmt.Errorf("asking go for its version: %w", err)
	}
	return strings.Join(append(strings.Fields(text), buildFlags("")...), " "), nil
}

// buildFlags are the flags of go build for a given version of Kubernetes.
func buildFlags(version string) []string {
	major, minor := "", ""
	if parts := strings.Split(strings.TrimPrefix(version, "v"), "."); len(parts) == 3 {
		major, minor = parts[0], parts[1]
	}
	link := []string{"-s", "-w"}
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		link = append(link,
			"-X", pkg+".gitVersion="+version, "-X", pkg+".gitMajor="+major, "-X", pkg+".gitMinor="+minor,
			"-X", pkg+".gitCommit=", "-X", pkg+".gitTreeState=clean")
	}
	return []string{"-trimpath", "-buildvcs=false", "-ldflags=" + strings.Join(link, " ")}
}

// compileWithGo is a build with the go command. A line at least each
// reportEvery says how far it is.
func compileWithGo(ctx context.Context, j job) error {
	version, err := kubernetesVersion(j.source)
	if err != nil {
		return err
	}
	fmt.Fprintf(j.out, "devcluster: building a Kubernetes %s API server from source, once: "+
		"6 to 15 minutes on two cores, less than a minute when the go command has most of it cached\n",
		strings.TrimPrefix(version, "v"))
	list, err := goOutput(ctx, j.source, "list", "-deps", ".")
	if err != nil {
		return fmt.Errorf("listing packages: %w", err)
	}
	m := &meter{total: strings.Count(list, "\n")}
	started := time.Now()
	reporting, done := context.WithCancel(ctx)
	var reporter sync.WaitGroup
	reporter.Go(func() { m.report(reporting, j.out) })
	cmd := goCommand(ctx, j.source, append(append([]string{"build", "-v", "-o", j.target}, buildFlags(version)...), ".")...)
	cmd.Stdout, cmd.Stderr = m, m
	err = cmd.Run()
	done()
	reporter.Wait()
	if err != nil {
		return fmt.Errorf("running go build: %w\n%s", err, m.lastWords())
	}
	fmt.Fprintf(j.out, "devcluster: built in %s\n", time.Since(started).Round(time.Second))
	return nil
}

func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopTime
	return cmd
}

func goOutput(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := goCommand(ctx, dir, args...)
	var words bytes.Buffer
	cmd.Stderr = &words
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("running go %s: %w\n%s", args[0], err, strings.TrimSpace(words.String()))
	}
	return string(out), nil
}

// meter is given what go build -v prints: the name of each package that it
// compiles, on a line of its own, among errors and notes. It is safe for
// concurrent use.
type meter struct {
	total int // packages the program is made of

	mu       sync.Mutex
	rest     []byte // a line that has not ended yet
	compiled int
	words    []string // the last lines that are not packages
}

// Write takes in a piece of output. It never fails.
func (m *meter) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rest = append(m.rest, p...)
	for {
		line, rest, ended := bytes.Cut(m.rest, []byte("\n"))
		if !ended {
			return len(p), nil
		}
		m.rest = rest
		m.take(string(line))
	}
}

func (m *meter) take(line string) {
	if line != "" && !strings.ContainsAny(line, " \t:#") {
		m.compiled++
		return
	}
	m.words = append(m.words, line)
	if len(m.words) > keptLines {
		m.words = m.words[1:]
	}
}

// report says how far the build is each reportEvery, until ctx ends.
func (m *meter) report(ctx context.Context, out io.Writer) {
	started := time.Now()
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			m.mu.Lock()
			compiled := m.compiled
			m.mu.Unlock()
			fmt.Fprintf(out, "devcluster: %s, compiled %d packages of at most %d\n",
				now.Sub(started).Round(time.Second), compiled, m.total)
		case <-ctx.Done():
			return
		}
	}
}

// lastWords is what the compiler said last.
func (m *meter) lastWords() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.TrimSpace(strings.Join(m.words, "\n") + "\n" + string(m.rest))
}
