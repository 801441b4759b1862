//go:build linux

package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// demo is one showing.
type demo struct {
	*terminal
	// root is the checkout that examples and manifests are read from.
	root string
	// folder holds everything that is written.
	folder string
	// pods is the address that the servers that play pods listen at.
	pods netip.Addr
	// machine is set by the step that starts it.
	machine *machine
	build   *build
	pool    *pool
	// begun is when the showing began.
	begun time.Time
}

// step is one thing that is shown and checked.
type step struct {
	title string
	run   func(ctx context.Context) error
}

// show gives a showing from beginning to end, and tidies up after it.
func show(ctx context.Context, o options, out io.Writer) (err error) {
	d, err := open(o.dir, out)
	if err != nil {
		return err
	}
	interrupted := func() bool { return ctx.Err() != nil && errors.Is(err, context.Canceled) }
	defer func() {
		well := err == nil || interrupted() || errors.Is(err, errCutShort)
		err = errors.Join(err, d.close(well, o.keep))
	}()
	err = d.play(ctx)
	switch {
	case o.once && interrupted():
		return errCutShort
	case interrupted():
		return nil // as it was asked to
	case err != nil:
		return err
	case o.once:
		d.say("\nEvery step did what was promised, in %s.", time.Since(d.begun).Round(100*time.Millisecond))
		return nil
	}
	return d.stay(ctx)
}

var (
	// errCutShort says that not every step was shown, so nothing was proved.
	errCutShort = errors.New("the demo was interrupted before its last step")
	// errBroken says that a step failed; how was told at once.
	errBroken = errors.New("it did not do what was promised, see above")
)

// open looks at what it takes before anything is shown, and makes the folder,
// and in it the programs that commands are run from.
func open(dir string, out io.Writer) (*demo, error) {
	root, err := findRoot()
	if err != nil {
		return nil, err
	}
	pods, err := machineAddress()
	if err != nil {
		return nil, err
	}
	folder, err := makeFolder(dir)
	if err != nil {
		return nil, err
	}
	bin := filepath.Join(folder, "bin")
	if err := linkSelf(bin); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	return &demo{
		terminal: &terminal{out: out, bin: bin, dir: root, env: os.Environ()},
		root:     root, folder: folder, pods: pods, begun: time.Now(),
	}, nil
}

// linkSelf makes the folder bin with this program in it.
func linkSelf(bin string) error {
	if err := os.Mkdir(bin, 0o755); err != nil {
		return fmt.Errorf("making a folder for programs: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding the program itself: %w", err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "fairlead")); err != nil {
		return fmt.Errorf("linking the program: %w", err)
	}
	return nil
}

// findRoot returns the checkout that the working directory is in.
func findRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the working directory: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, helloManifest)); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("looking for %s: %s is not in a checkout of Fairlead; change to one and try again", helloManifest, start)
		}
	}
}

// makeFolder returns an empty folder with an absolute path.
func makeFolder(given string) (string, error) {
	if given == "" {
		folder, err := os.MkdirTemp("", "fairlead-demo-")
		if err != nil {
			return "", fmt.Errorf("making a folder: %w", err)
		}
		return folder, nil
	}
	folder, err := filepath.Abs(given)
	if err != nil {
		return "", fmt.Errorf("resolving %s: %w", given, err)
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", fmt.Errorf("making folder %s: %w", folder, err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "", fmt.Errorf("reading folder %s: %w", folder, err)
	}
	if len(entries) > 0 {
		return "", fmt.Errorf("using folder %s: it is not empty, and the demo removes what is in its folder; name another one", folder)
	}
	return folder, nil
}

// play goes through all steps and stops at the first that fails.
func (d *demo) play(ctx context.Context) error {
	d.build = startBuild(ctx, d.out)
	d.say("%s", welcome)
	steps := slices.Concat(d.openingSteps(), d.helloSteps(), d.furtherSteps())
	for i, s := range steps {
		d.say("\n── %d of %d: %s\n", i+1, len(steps), s.title)
		if err := s.run(ctx); err != nil {
			return d.explain(ctx, s, err)
		}
	}
	return nil
}

const welcome = `Fairlead makes Services of type LoadBalancer work. On this machine there is no
cloud that could do it, so Fairlead itself listens at loopback addresses and
passes connections on to pods. Everything here is real but the pods: those are
small HTTP servers in this process. Lines that begin with $ are commands that
you could have typed.`

// explain tells what to do about a failed step, unless it was merely interrupted.
func (d *demo) explain(ctx context.Context, s step, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("showing %q: %w", s.title, context.Cause(ctx))
	}
	d.say("\nThis step did not do what was promised.\n  %s", err)
	if d.machine != nil {
		d.say("The controller's log is %s,\nthose of the cluster are in %s.", d.machine.controllerLog(), d.machine.clusterLogs())
	}
	return fmt.Errorf("showing %q: %w", s.title, errBroken)
}

// stay tells what can be done now, and waits for the end.
func (d *demo) stay(ctx context.Context) error {
	hello, err := d.address(ctx, "hello")
	if err != nil {
		return err
	}
	proxied, err := d.address(ctx, "hello-proxy")
	if err != nil {
		return err
	}
	d.say("\n── Your turn\n")
	d.say("All of this keeps running until Ctrl-C. In another terminal, in %s:\n", d.root)
	d.say("  export KUBECONFIG=%s PATH=%s:$PATH", quoted(d.machine.kubeconfig()), quoted(d.bin))
	d.say(suggestions, hello, remoteClient(), proxied)
	if err := d.machine.wait(ctx); err != nil {
		return err
	}
	d.say("\nStopping.")
	return nil
}

const suggestions = `
  curl http://%[1]s/
  curl --interface %[2]s http://%[3]s/

  kubectl annotate service hello fairlead.dev/source-ranges=%[2]s/32
  fairlead describe svc/hello
  curl http://%[1]s/                           # refused now
  curl --interface %[2]s http://%[1]s/   # let in

  fairlead explain source-ranges
  fairlead plan -f examples/mistake/service.yaml

Pods of your own get no address here, since nothing runs containers; Services
that select "app: hello" find the three servers of this demo.`

// close stops all that runs, and removes the folder if all went well.
func (d *demo) close(well, keep bool) error {
	d.build.stop()
	var err error
	if d.machine != nil {
		err = d.machine.stop()
	}
	d.pool.release()
	if !well || keep || err != nil {
		d.say("\nEverything that was written is in %s", d.folder)
		return err
	}
	if err := os.RemoveAll(d.folder); err != nil {
		return fmt.Errorf("removing the demo's folder: %w", err)
	}
	return nil
}
