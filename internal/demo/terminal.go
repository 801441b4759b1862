//go:build linux

package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// endPatience is how long a child process has to end when it is asked to.
const endPatience = 5 * time.Second

// terminal runs commands as a person would type them, and shows both the
// command and its output.
type terminal struct {
	out io.Writer
	// bin is the folder that the programs are run from; a person who has it in
	// PATH can repeat every command that was shown.
	bin string
	// dir is the working directory of commands.
	dir string
	env []string
}

// say prints lines for people.
func (t *terminal) say(format string, args ...any) { fmt.Fprintf(t.out, format+"\n", args...) }

// run shows a command, runs it and returns all that it printed, which was
// shown as well.
func (t *terminal) run(ctx context.Context, program string, args ...string) (string, error) {
	t.say("$ %s", commandLine(program, args))
	var kept bytes.Buffer
	err := t.start(ctx, io.MultiWriter(t.out, &kept), program, args)
	return kept.String(), err
}

// ask runs kubectl behind the scenes and returns all that it printed.
func (t *terminal) ask(ctx context.Context, args ...string) (string, error) {
	var kept bytes.Buffer
	if err := t.start(ctx, &kept, "kubectl", args); err != nil {
		return kept.String(), fmt.Errorf("%w: %s", err, strings.TrimSpace(kept.String()))
	}
	return kept.String(), nil
}

func (t *terminal) start(ctx context.Context, out io.Writer, program string, args []string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(t.bin, program), args...)
	cmd.Dir, cmd.Env = t.dir, t.env
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = leashed()
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = endPatience
	err := cmd.Run()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("running %s: %w", commandLine(program, args), err)
	}
	return nil
}

// saidNo tells whether a command did its work and its answer was no (exit code 1).
func saidNo(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == 1
}

// leashed makes a child die with this process (prctl(2), PR_SET_PDEATHSIG), and
// keeps an interrupt at the terminal from it: that is for this process, which
// then stops what it started in order.
func leashed() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// commandLine is a command as it is typed into a shell.
func commandLine(program string, args []string) string {
	words := make([]string, 0, len(args)+1)
	for _, word := range append([]string{program}, args...) {
		words = append(words, quoted(word))
	}
	return strings.Join(words, " ")
}

// quoted is a word as a POSIX shell reads it (XCU 2.2.2).
func quoted(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./=:,@+", r)
	}
	if word != "" && strings.TrimFunc(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
