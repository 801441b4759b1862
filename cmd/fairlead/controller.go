package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/fairlead-lb/fairlead/api/config"
	"github.com/fairlead-lb/fairlead/internal/controller"
	"github.com/fairlead-lb/fairlead/internal/ipam"
	"github.com/fairlead-lb/fairlead/internal/kube"
	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/provider"
	"github.com/fairlead-lb/fairlead/internal/provider/local"
	"github.com/fairlead-lb/fairlead/internal/proxy"
	"github.com/fairlead-lb/fairlead/internal/telemetry"
)

// clusterFlags is how a controller finds its cluster and its configuration.
type clusterFlags struct {
	kubeconfig string
	context    string
	config     string
}

func controllerCommand() *cobra.Command {
	var f clusterFlags
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Run the controller that serves Services of type LoadBalancer",
		Long: `Run the controller: it watches Services of type LoadBalancer whose class is
fairlead.dev/<provider> (and those without a class, where defaultProvider is
set), has them served, and says in their conditions and events what it did or
why it could not.

With provider "local" this process itself serves the traffic, at loopback
addresses of this machine.`,
		Example: `  # Against the cluster of the current kubeconfig context, with all defaults
  fairlead controller

  # With a configuration file, checked before
  fairlead config check -f fairlead.yaml
  fairlead controller --config fairlead.yaml --kubeconfig ~/.kube/config`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runController(cmd.Context(), f)
		},
	}
	cmd.Flags().StringVar(&f.config, "config", "", "configuration file (docs/configuration.md); without one, the defaults")
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file; without one, as kubectl does, else from inside a pod")
	cmd.Flags().StringVar(&f.context, "context", "", "context of the kubeconfig file")
	return cmd
}

func runController(ctx context.Context, f clusterFlags) error {
	cfg, err := readConfig(f.config)
	if err != nil {
		return err
	}
	log, err := telemetry.NewLog(os.Stderr, cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return err
	}
	cluster, err := connect(f, cfg, log)
	if err != nil {
		return err
	}
	return serve(ctx, cluster, cfg, log)
}

func readConfig(path string) (config.Config, error) {
	if path == "" {
		return config.New(), nil
	}
	file, err := os.Open(path)
	if err != nil {
		return config.Config{}, fmt.Errorf("opening the configuration: %w", err)
	}
	defer func() { _ = file.Close() }()
	cfg, err := config.Parse(file)
	if err != nil {
		return config.Config{}, fmt.Errorf("reading configuration %s: %w", path, err)
	}
	return cfg, nil
}

func connect(f clusterFlags, cfg config.Config, log *slog.Logger) (*kube.Client, error) {
	rest, err := kube.LoadConfig(f.kubeconfig, f.context)
	if err != nil {
		return nil, err
	}
	services, err := kube.ParseSelector(cfg.ServiceSelector)
	if err != nil {
		return nil, err
	}
	namespaces, err := kube.ParseSelector(cfg.NamespaceSelector)
	if err != nil {
		return nil, err
	}
	return kube.New(kube.Options{
		Config: rest, Log: log, Namespace: cfg.Namespace,
		ServiceSelector: services, NamespaceSelector: namespaces,
		MetricsAddress: addressOrOff(cfg.Metrics.Address), MetricsSecure: cfg.Metrics.Secure,
		HealthAddress: addressOrOff(cfg.Health.Address),
		LeaderElection: kube.LeaderElection{
			Elect: cfg.LeaderElection.Enabled, LeaseName: cfg.LeaderElection.Name,
			LeaseDuration: cfg.LeaderElection.LeaseDuration,
			RenewDeadline: cfg.LeaderElection.RenewDeadline,
			RetryPeriod:   cfg.LeaderElection.RetryPeriod,
		},
		ShutdownTimeout: 10 * time.Second,
	})
}

// addressOrOff returns controller-runtime's word for "no endpoint".
func addressOrOff(address string) string {
	if address == "" {
		return "0"
	}
	return address
}

// serve joins providers, controller and cluster, and runs them.
func serve(ctx context.Context, cluster *kube.Client, cfg config.Config, log *slog.Logger) error {
	providers, err := newProviders(cfg, log)
	if err != nil {
		return err
	}
	pool, err := ipam.ParsePool("local", cfg.Local.Pools)
	if err != nil {
		return fmt.Errorf("reading local.pools: %w", err)
	}
	changes := kube.NewChanges()
	c := controller.New(controller.Config{
		Log: log, Reader: cluster, Writer: cluster, Ledger: cluster,
		Providers: providers, Default: cfg.DefaultProvider,
		Observe: cfg.Mode == config.Observe, Pools: []ipam.Pool{pool},
		ReleaseDelay: cfg.Addresses.ReleaseDelay, Resync: cfg.ResyncPeriod,
		Now: time.Now, Standby: cluster.Standby, Changes: changes,
	})
	if err := cluster.AddReadyCheck("services", c.Ready); err != nil {
		return err
	}
	if err := cluster.AddReadyCheck("shutdown", ctx.Err); err != nil {
		return err
	}
	ctx, stop := delayed(ctx, cfg.Shutdown.Delay)
	defer stop()
	var last drains
	background := []func(context.Context) error{c.ExpireReservations}
	for _, p := range providers {
		background = append(background, last.run(p, changes))
	}
	err = cluster.Run(ctx, kube.Loop{
		Workers: cfg.Workers, Start: c.Start, Reconcile: c.Reconcile,
		Background: background, Changes: changes,
	})
	last.open.Wait()
	return err
}

// delayed returns a context that ends a while after ctx, so that who asks
// readiness can turn away before anything stops.
func delayed(ctx context.Context, delay time.Duration) (context.Context, context.CancelFunc) {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(delay, cancel) })
	return later, func() { stop(); cancel() }
}

// drains are the providers that still bring their last connections to an end.
type drains struct{ open sync.WaitGroup }

// run runs a provider for as long as this process leads. A provider that takes
// longer to end goes on beside: it listens no more, so the lease must not wait
// for it, and the next leader not for the lease.
func (d *drains) run(p provider.Provider, changes chan<- model.Key) func(context.Context) error {
	return func(ctx context.Context) error {
		ended := make(chan error, 1)
		d.open.Go(func() {
			ended <- p.Run(ctx, func(k model.Key) {
				select {
				case changes <- k:
				case <-ctx.Done():
				}
			})
		})
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

func newProviders(cfg config.Config, log *slog.Logger) (map[string]provider.Provider, error) {
	providers := map[string]provider.Provider{}
	for _, name := range cfg.Providers {
		if name != "local" {
			return nil, fmt.Errorf("provider %q is not built yet; this version has: local", name)
		}
		plane := proxy.New(proxy.Config{
			Log: log, PortOffset: cfg.Local.PortOffset, ShutdownGrace: grace(cfg.Shutdown.Drain),
		})
		if err := ctrlmetrics.Registry.Register(telemetry.NewProxyCollector(plane.Stats)); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
		providers[name] = local.New(plane)
	}
	if cfg.DefaultProvider != "" && !slices.Contains(cfg.Providers, cfg.DefaultProvider) {
		return nil, errors.New("defaultProvider is not one of providers")
	}
	return providers, nil
}

// grace returns the proxy's form of a drain time, in which zero means its default.
func grace(drain time.Duration) time.Duration {
	if drain == 0 {
		return -1
	}
	return drain
}
