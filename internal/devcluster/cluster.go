package devcluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopPatience is how long Stop waits before it kills.
const stopPatience = 20 * time.Second

// StartOptions say what cluster to start.
type StartOptions struct {
	// Binary is the path that Build returned.
	Binary string
	// Dir is the folder of all the cluster's files, its logs (in the folder
	// logs) and keys among them. It is made if need be. A cluster started again
	// in the same Dir has the same objects.
	Dir string
	// Listen is the address and port of the API server, "127.0.0.1:0" when
	// empty; port 0 takes a free one.
	Listen string
	// ServiceClusterIPRange is one CIDR, or two of different families with a
	// comma between; a dual-stack range when empty.
	ServiceClusterIPRange string
	// Manifests are files and folders applied before Start returns.
	Manifests []string
	// ServiceAccounts are accounts, as NAMESPACE/NAME, that the manifests hold
	// and that get a kubeconfig each.
	ServiceAccounts []string
	// AuditLog is a file to which the requests of ServiceAccounts are appended,
	// a JSON Event (audit.k8s.io/v1) a line; none when empty. A request is in
	// it no later than a moment after its response has come.
	AuditLog string
}

func (o StartOptions) args() []string {
	args := []string{"up", "--until-stdin-closes", "--dir=" + o.Dir}
	if o.Listen != "" {
		args = append(args, "--listen="+o.Listen)
	}
	if o.ServiceClusterIPRange != "" {
		args = append(args, "--service-cluster-ip-range="+o.ServiceClusterIPRange)
	}
	for _, m := range o.Manifests {
		args = append(args, "--manifests="+m)
	}
	for _, a := range o.ServiceAccounts {
		args = append(args, "--service-account="+a)
	}
	if o.AuditLog != "" {
		args = append(args, "--audit-log="+o.AuditLog)
	}
	return args
}

// Cluster is a running cluster. Its methods are safe for concurrent use.
type Cluster struct {
	// Server is the URL of the API server.
	Server string
	// AdminKubeconfig is the path of a kubeconfig with all rights.
	AdminKubeconfig string
	// AuditLog is the absolute path of the audit log, empty without one.
	AuditLog string

	binary   string
	accounts map[string]string // kubeconfigs by NAMESPACE/NAME
	process  *os.Process
	done     chan struct{}
	err      error // how the process ended; valid once done is closed
}

// announcement is the line that the binary prints when it is ready.
type announcement struct {
	Server                    string            `json:"server"`
	AdminKubeconfig           string            `json:"adminKubeconfig"`
	ServiceAccountKubeconfigs map[string]string `json:"serviceAccountKubeconfigs"`
	AuditLog                  string            `json:"auditLog"`
}

// Start runs a cluster as a child process and returns when it is ready: the API
// server and its controllers work and the manifests are applied. ctx bounds the
// start alone; from then on the cluster runs until Stop, or until this process
// ends in whatever way. A Dir in which a cluster runs already is an error.
func Start(ctx context.Context, o StartOptions) (*Cluster, error) {
	cmd := exec.Command(o.Binary, o.args()...)
	// The child stops when this pipe closes, which the kernel does for a parent
	// that was killed, too. Go keeps the pipe open as long as the process runs.
	leash, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting devcluster: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting devcluster: %w", err)
	}
	words := &tail{}
	cmd.Stderr = words
	cmd.SysProcAttr = ownGroup()
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting devcluster: %w", err)
	}
	c := &Cluster{binary: o.Binary, process: cmd.Process, done: make(chan struct{})}
	ready := make(chan announcement, 1)
	go func() {
		defer close(c.done)
		defer leash.Close()
		var a announcement
		if json.NewDecoder(stdout).Decode(&a) == nil {
			ready <- a
		}
		_, _ = io.Copy(io.Discard, stdout) // until it ends, as Wait asks for
		c.err = describeEnd(cmd.Wait(), words)
	}()
	select {
	case a := <-ready:
		c.Server, c.AdminKubeconfig, c.AuditLog, c.accounts = a.Server, a.AdminKubeconfig, a.AuditLog, a.ServiceAccountKubeconfigs
		return c, nil
	case <-c.done:
		return nil, fmt.Errorf("starting devcluster in %s: it ended before it was ready: %w", o.Dir, orEnded(c.err))
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("starting devcluster in %s: %w", o.Dir, context.Cause(ctx)), c.Stop())
	}
}

// errEnded is how a process ended that was not asked to and reports no failure.
var errEnded = errors.New("no error reported")

func orEnded(err error) error {
	if err == nil {
		return errEnded
	}
	return err
}

func describeEnd(err error, words *tail) error {
	if said := words.text(); err != nil && said != "" {
		return fmt.Errorf("%w: %s", err, said)
	}
	return err
}

// ServiceAccountKubeconfig is the path of the kubeconfig of account, which is
// written NAMESPACE/NAME as in StartOptions. It fails for any other account.
func (c *Cluster) ServiceAccountKubeconfig(account string) (string, error) {
	path, ok := c.accounts[account]
	if !ok {
		return "", fmt.Errorf("finding kubeconfig: the cluster was started without service account %s", account)
	}
	return path, nil
}

// Kubectl runs kubectl with all rights and returns what it printed. A failure's
// error holds what it said.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.binary, append([]string{"kubectl", "--kubeconfig=" + c.AdminKubeconfig}, args...)...)
	var out, words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &words
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("running kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(words.String()))
	}
	return out.String(), nil
}

// Stop ends the cluster and waits for that. Its files stay. It returns an error
// if the cluster had failed before, or had to be killed. Stopping a stopped
// cluster says the same again.
func (c *Cluster) Stop() error {
	if err := c.process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping devcluster: %w", err)
	}
	select {
	case <-c.done:
		return c.Wait()
	case <-time.After(stopPatience):
	}
	if err := c.process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing devcluster: %w", err)
	}
	return c.Wait()
}

// Wait blocks until the cluster has ended and tells how: nil if it was stopped.
func (c *Cluster) Wait() error {
	<-c.done
	if c.err != nil {
		return fmt.Errorf("running devcluster: %w", c.err)
	}
	return nil
}

// tail keeps the end of what is written to it. It is safe for concurrent use.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

// tailBytes is enough for a message or the head of a panic's trace.
const tailBytes = 8 << 10

// Write takes in a piece of output. It never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if len(t.kept) > tailBytes {
		t.kept = append([]byte(nil), t.kept[len(t.kept)-tailBytes:]...)
	}
	return len(p), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.kept))
}
