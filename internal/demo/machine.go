//go:build linux

package demo

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/fairlead-lb/fairlead/internal/devcluster"
)

const (
	// account is the one that the shipped manifests make for the controller.
	account = "fairlead-system/fairlead-controller"
	// startPatience bounds what takes seconds on an idle machine.
	startPatience = 2 * time.Minute
)

// What should have gone on.
var (
	errController = errors.New("the controller ended by itself")
	errCluster    = errors.New("the development cluster ended by itself")
)

// machine is the cluster, the controller and the servers that play its pods.
type machine struct {
	folder  string
	cluster *devcluster.Cluster
	process *exec.Cmd
	ended   chan struct{} // closed when the controller has ended
	// metrics is where the controller serves its metrics.
	metrics  string
	backends []*backend
}

func (m *machine) clusterFolder() string { return filepath.Join(m.folder, "cluster") }
func (m *machine) clusterLogs() string   { return filepath.Join(m.clusterFolder(), "logs") }
func (m *machine) controllerLog() string { return filepath.Join(m.folder, "controller.log") }
func (m *machine) kubeconfig() string    { return m.cluster.AdminKubeconfig }

// startCluster runs the API server with exactly the manifests that are shipped
// for the controller's rights and resources.
func (m *machine) startCluster(ctx context.Context, binary, root string) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	var err error
	m.cluster, err = devcluster.Start(ctx, devcluster.StartOptions{
		Binary:          binary,
		Dir:             m.clusterFolder(),
		Manifests:       []string{filepath.Join(root, "deploy", "crds"), filepath.Join(root, "deploy", "rbac")},
		ServiceAccounts: []string{account},
	})
	return err
}

// startController runs "fairlead controller" with the rights of its own
// account, and returns when it says that it is ready.
func (m *machine) startController(ctx context.Context, program string, addresses *pool) error {
	kubeconfig, err := m.cluster.ServiceAccountKubeconfig(account)
	if err != nil {
		return err
	}
	free, err := freeAddresses(ctx, 2)
	if err != nil {
		return err
	}
	health := free[0]
	m.metrics = free[1]
	file := filepath.Join(m.folder, "fairlead.yaml")
	if err := os.WriteFile(file, []byte(configuration(health, m.metrics, addresses)), 0o600); err != nil {
		return fmt.Errorf("writing the configuration: %w", err)
	}
	log, err := os.OpenFile(m.controllerLog(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the controller's log: %w", err)
	}
	defer func() { _ = log.Close() }()                                                            // the child has its own
	m.process = exec.Command(program, "controller", "--kubeconfig="+kubeconfig, "--config="+file) //nolint:noctx // it runs on after the start
	m.process.Stdout, m.process.Stderr = log, log
	m.process.SysProcAttr = leashed()
	if err := m.process.Start(); err != nil {
		return fmt.Errorf("starting the controller: %w", err)
	}
	m.ended = make(chan struct{})
	go func() {
		defer close(m.ended)
		_ = m.process.Wait() // its exit code is in ProcessState
	}()
	return until(ctx, startPatience, "the controller to be ready", func() error { return m.controllerReady(ctx, health) })
}

// configuration is the controller's: what differs from the defaults. Metrics
// need no protection here, since only this machine reaches them.
func configuration(health, metrics string, addresses *pool) string {
	return strings.Join([]string{
		"apiVersion: fairlead.dev/v1alpha1",
		"kind: Configuration",
		"providers: [local]",
		"local: {pools: [" + addresses.prefix.String() + "]}",
		`metrics: {address: "` + metrics + `", secure: false}`,
		`health: {address: "` + health + `"}`,
		"shutdown: {drain: 1s}",
		"",
	}, "\n")
}

func (m *machine) controllerReady(ctx context.Context, health string) error {
	select {
	case <-m.ended:
		return lasting{m.controllerEnd()}
	default:
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+health+"/readyz", nil)
	if err != nil {
		return lasting{err}
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz says %s", answer.Status)
	}
	return nil
}

func (m *machine) controllerEnd() error {
	return fmt.Errorf("%w (%s); its log is %s", errController, m.process.ProcessState, m.controllerLog())
}

// wait blocks until ctx ends, which is no error, or something does that should
// not.
func (m *machine) wait(ctx context.Context) error {
	cluster := make(chan error, 1)
	go func() { cluster <- m.cluster.Wait() }()
	select {
	case <-ctx.Done():
		return nil
	case <-m.ended:
		return m.controllerEnd()
	case err := <-cluster:
		return errors.Join(errCluster, err)
	}
}

// stop ends what runs: first those who ask, then who answers.
func (m *machine) stop() error {
	var errs []error
	if m.ended != nil {
		errs = append(errs, m.stopController())
	}
	if m.cluster != nil {
		errs = append(errs, m.cluster.Stop())
	}
	for _, b := range m.backends {
		b.close()
	}
	return errors.Join(errs...)
}

func (m *machine) stopController() error {
	if err := m.process.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping the controller: %w", err)
	}
	select {
	case <-m.ended:
		return nil
	case <-time.After(2 * endPatience):
	}
	if err := m.process.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("killing the controller: %w", err)
	}
	<-m.ended
	return nil
}

// freeAddresses returns loopback addresses with ports that are free now.
func freeAddresses(ctx context.Context, n int) ([]string, error) {
	free := make([]string, 0, n)
	for range n {
		l, err := listen(ctx, netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // not before all are found, so that they differ
		free = append(free, l.Addr().String())
	}
	return free, nil
}
