package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/fairlead-lb/fairlead/api/config"
	"github.com/fairlead-lb/fairlead/internal/controller"
	"github.com/fairlead-lb/fairlead/internal/ipam"
	"github.com/fairlead-lb/fairlead/internal/kube"
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
	return serve(ctx, f, cfg, log)
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

func connect(f clusterFlags, cfg config.Config, log *slog.Logger, identity string) (*kube.Client, error) {
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
			Elect: cfg.LeaderElection.Enabled, LeaseName: cfg.LeaderElection.Name, Identity: identity,
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

// serve makes the providers, and leads as long and as often as it can.
func serve(ctx context.Context, f clusterFlags, cfg config.Config, log *slog.Logger) error {
	providers, err := newProviders(cfg, log)
	if err != nil {
		return err
	}
	pool, err := ipam.ParsePool("local", cfg.Local.Pools)
	if err != nil {
		return fmt.Errorf("reading local.pools: %w", err)
	}
	path, stop := newDataPath(ctx, cfg.Shutdown.Delay, providers)
	defer stop()
	identity := newIdentity()
	for {
		err := path.term(ctx, func() (*kube.Client, error) { return connect(f, cfg, log, identity) }, controller.Config{
			Log: log, Providers: providers, Default: cfg.DefaultProvider,
			Observe: cfg.Mode == config.Observe, Pools: []ipam.Pool{pool},
			ReleaseDelay: cfg.Addresses.ReleaseDelay, Resync: cfg.ResyncPeriod,
			Now: time.Now, Changes: path.changes,
		}, cfg.Workers)
		if !path.goesOn(err) {
			path.open.Wait()
			return err
		}
		log.WarnContext(ctx, "lost the cluster; what is served goes on as it was", slog.Any("error", err))
		path.pause(cfg.LeaderElection.RetryPeriod)
	}
}

// newIdentity names this process in the Lease.
func newIdentity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s_%d_%d", host, os.Getpid(), time.Now().UnixNano())
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
