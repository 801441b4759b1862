// Package server runs a Kubernetes control plane in this process: etcd,
// kube-apiserver, and those controllers of kube-controller-manager that
// Services need. Everything it keeps is in one folder, and a cluster started
// there again goes on where it stopped. It has no kubelet and no scheduler:
// nodes, and the addresses of pods, are objects that its user writes.
package server

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"github.com/fairlead-lb/fairlead/devcluster/internal/manifest"
)

// What the cluster's folder holds, relative to it.
const (
	pkiDir               = "pki"
	logDir               = "logs"
	adminKubeconfig      = "admin.kubeconfig"
	controllerKubeconfig = "kube-controller-manager.kubeconfig"
)

const (
	// startPatience bounds a start. It takes a few seconds on a free machine.
	startPatience = 2 * time.Minute
	// stopPatience bounds the stop of each part.
	stopPatience = 5 * time.Second
)

// Config says what cluster to run.
type Config struct {
	// Dir is the cluster's folder. It is made if need be, for its owner alone,
	// and becomes the working directory of the process.
	Dir string
	// Listen is where the API server listens; port 0 takes a free one.
	Listen netip.AddrPort
	// ServiceClusterIPRange is that flag of kube-apiserver: one CIDR, or two of
	// different families with a comma between.
	ServiceClusterIPRange string
	// Manifests are absolute paths of files and folders that are applied at each start.
	Manifests []string
	// Accounts get a kubeconfig each.
	Accounts []Account
	// AuditLog is the absolute path of a file to which the requests of Accounts
	// are appended; none when empty.
	AuditLog string
}

// Ready tells how to reach a cluster. All paths are absolute.
type Ready struct {
	Server          string `json:"server"`
	AdminKubeconfig string `json:"adminKubeconfig"`
	// ServiceAccountKubeconfigs has one entry for each account, by its NAMESPACE/NAME.
	ServiceAccountKubeconfigs map[string]string `json:"serviceAccountKubeconfigs,omitempty"`
	AuditLog                  string            `json:"auditLog,omitempty"`
}

// Run runs the cluster until ctx ends, and stops it before it returns: nil when
// ctx ended, else why the cluster could not start or go on. It calls ready once,
// when the API server says it is ready, its controllers watch the cluster,
// pods can be created in the default namespace, and the manifests are applied.
// A process can run it once.
func Run(ctx context.Context, cfg Config, ready func(Ready) error) error {
	objects, err := manifest.Read(cfg.Manifests)
	if err != nil {
		return err
	}
	unlock, err := enter(cfg.Dir)
	if err != nil {
		return fmt.Errorf("starting cluster in %s: %w", cfg.Dir, err)
	}
	defer unlock()
	if err := run(ctx, &cluster{cfg: cfg, objects: objects}, ready); err != nil && ctx.Err() == nil {
		return fmt.Errorf("running cluster in %s: %w", cfg.Dir, err)
	}
	return nil
}

// enter makes dir the working directory, this process its only user, and its
// log the place where Kubernetes' code logs to.
func enter(dir string) (func(), error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chdir(dir); err != nil {
		return nil, err
	}
	held, err := lock()
	if err != nil {
		return nil, err
	}
	for _, sub := range []string{pkiDir, logDir} {
		if err := os.MkdirAll(sub, 0o700); err != nil {
			held.Close()
			return nil, err
		}
	}
	log, err := os.OpenFile(filepath.Join(logDir, "kubernetes.log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		held.Close()
		return nil, err
	}
	klog.SetLogger(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(log))))
	return func() { held.Close() }, nil // the log stays open for what is written last
}

func run(ctx context.Context, c *cluster, ready func(Ready) error) error {
	starting, cancel := context.WithTimeoutCause(ctx, startPatience, fmt.Errorf("not ready after %s", startPatience))
	defer cancel()
	store, err := startStore(starting, logDir)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := c.prepare(); err != nil {
		return err
	}
	api := startPart(ctx, "kube-apiserver", func(ctx context.Context) error {
		return runAPIServer(ctx, c.listener, c.flags)
	})
	defer api.stop(stopPatience)
	if err := api.await(starting, "kube-apiserver", c.apiReady); err != nil {
		return err
	}
	watching := make(chan struct{})
	controllers := startPart(ctx, "kube-controller-manager", func(ctx context.Context) error {
		return runControllers(ctx, controllerKubeconfig, func() { close(watching) })
	})
	defer controllers.stop(stopPatience)
	if err := controllers.await(starting, "kube-controller-manager", c.usable(watching)); err != nil {
		return err
	}
	info, err := c.furnish(starting)
	if err != nil {
		return err
	}
	if err := ready(info); err != nil {
		return fmt.Errorf("telling that the cluster is ready: %w", err)
	}
	select {
	case <-ctx.Done():
		return nil
	case <-api.done:
		return api.ended()
	case <-controllers.done:
		return controllers.ended()
	case err := <-store.Err():
		return fmt.Errorf("running etcd: %w", err)
	}
}
