// Command controller measures what the controller costs: 2,000 Services at
// once against a real API server, then rest, then a restart. It prints RESULT
// lines for scripts; times stand beside what the API server alone needs, counts
// come from the API server's audit log.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/fairlead-lb/fairlead/internal/devcluster"
)

const account = "fairlead-system/fairlead-controller"

// patience bounds each wait of the measurement.
const patience = 10 * time.Minute

func main() {
	services := flag.Int("services", 2000, "how many Services")
	workers := flag.Int("workers", 16, "how many clients create them")
	rest := flag.Duration("rest", 20*time.Second, "how long nothing may be written afterwards")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *services, *workers, *rest)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, services, workers int, rest time.Duration) (err error) {
	dir, err := os.MkdirTemp("", "fairlead-bench-")
	if err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cluster, err := startCluster(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	b := &bench{dir: dir, cluster: cluster, services: services, workers: workers, rest: rest}
	if b.client, err = connect(cluster.AdminKubeconfig); err != nil {
		return err
	}
	return b.measure(ctx)
}

func startCluster(ctx context.Context, dir string) (*devcluster.Cluster, error) {
	binary, err := devcluster.Build(ctx, devcluster.Options{Out: os.Stderr})
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(os.Stderr, "bench: starting a cluster")
	return devcluster.Start(ctx, devcluster.StartOptions{
		Binary: binary, Dir: filepath.Join(dir, "cluster"),
		Manifests:       []string{"deploy/crds", "deploy/rbac"},
		ServiceAccounts: []string{account},
		AuditLog:        filepath.Join(dir, "audit.log"),
	})
}

// measure runs the three parts, and prints as it goes.
func (b *bench) measure(ctx context.Context) error {
	alone, err := b.createAll(ctx, "alone")
	if err != nil {
		return err
	}
	if err := b.deleteAll(ctx, "alone"); err != nil {
		return err
	}
	result("controller.services", b.services)
	result("controller.create_api_alone_seconds", seconds(alone))
	controller, err := b.startController(ctx)
	if err != nil {
		return err
	}
	defer func() { controller.kill() }()
	if err := b.measureCreate(ctx, alone, controller); err != nil {
		return err
	}
	if err := b.measureRest(ctx, "controller.rest_service_writes"); err != nil {
		return err
	}
	if err := controller.stop(ctx); err != nil {
		return err
	}
	controller, err = b.measureRestart(ctx)
	return err
}

func (b *bench) measureCreate(ctx context.Context, alone time.Duration, c *process) error {
	before, err := b.counts()
	if err != nil {
		return err
	}
	began := time.Now()
	if _, err := b.createAll(ctx, "served"); err != nil {
		return err
	}
	if err := b.untilProgrammed(ctx, "served"); err != nil {
		return err
	}
	took := time.Since(began)
	after, err := b.settled(ctx)
	if err != nil {
		return err
	}
	done := after.less(before)
	result("controller.programmed_seconds", seconds(took))
	result("controller.programmed_ratio", fmt.Sprintf("%.2f", took.Seconds()/alone.Seconds()))
	result("controller.service_writes_per_service", perService(done.services, b.services))
	result("controller.events_per_service", perService(done.events, b.services))
	result("controller.own_writes_per_service", perService(done.own, b.services))
	result("controller.refused_requests", done.refused)
	result("controller.memory_mib", c.residentMiB())
	return nil
}

func (b *bench) measureRest(ctx context.Context, name string) error {
	before, err := b.counts()
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "bench: resting for %s\n", b.rest)
	select {
	case <-time.After(b.rest):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := b.counts()
	if err != nil {
		return err
	}
	result(name, after.less(before).services)
	return nil
}

func (b *bench) measureRestart(ctx context.Context) (*process, error) {
	before, err := b.counts()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	c, err := b.startController(ctx)
	if err != nil {
		return nil, err
	}
	result("controller.restart_ready_seconds", seconds(time.Since(began)))
	after, err := b.settled(ctx)
	if err != nil {
		return c, err
	}
	result("controller.restart_service_writes", after.less(before).services)
	result("controller.restart_memory_mib", c.residentMiB())
	return c, c.stop(ctx)
}

func result(name string, value any) { fmt.Printf("RESULT %s=%v\n", name, value) }

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }

func perService(n, services int) string { return fmt.Sprintf("%.2f", float64(n)/float64(services)) }
