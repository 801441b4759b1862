package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fairlead-lb/fairlead/devcluster/internal/server"
)

// upFlags are the flags of "devcluster up" as given.
type upFlags struct {
	dir                   string
	listen                string
	serviceClusterIPRange string
	writeKubeconfig       string
	manifests             []string
	serviceAccounts       []string
	auditLog              string
	untilStdinCloses      bool
}

func newUpCommand() *cobra.Command {
	var f upFlags
	cmd := &cobra.Command{
		Use:   "up --dir DIR",
		Short: "Run a cluster in DIR until interrupted",
		Long: `Run etcd, kube-apiserver and the controllers of Services in this process, with
all their files in DIR. When the cluster is ready, one line of JSON on standard
output says how to reach it. SIGINT or SIGTERM stops it; the next start in the
same DIR goes on with the same objects, and on the same port if it is free.`,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().AddFlagSet(f.flags())
	if err := cmd.MarkFlagRequired("dir"); err != nil {
		panic(err) // flags defines it
	}
	return cmd
}

// flags are the flags that set f.
func (f *upFlags) flags() *pflag.FlagSet {
	flags := pflag.NewFlagSet("up", pflag.ContinueOnError)
	flags.StringVar(&f.dir, "dir", "", "folder of the cluster; made if need be")
	flags.StringVar(&f.listen, "listen", "127.0.0.1:0", "`address:port` of the API server; port 0 takes a free one")
	flags.StringVar(&f.serviceClusterIPRange, "service-cluster-ip-range", "10.96.0.0/16,fd00:10:96::/112", "`CIDRs` of cluster IPs, the first family first")
	flags.StringVar(&f.writeKubeconfig, "write-kubeconfig", "", "`file` to write the administrator's kubeconfig to as well")
	flags.StringArrayVar(&f.manifests, "manifests", nil, "`file or folder` of manifests to apply when the API server is ready; may be repeated")
	flags.StringArrayVar(&f.serviceAccounts, "service-account", nil, "service account, as `NAMESPACE/NAME`, to write a kubeconfig for; the manifests must hold it; may be repeated")
	flags.StringVar(&f.auditLog, "audit-log", "", "`file` to append each request of the service accounts to, as JSON lines (audit.k8s.io/v1 Event, level Metadata)")
	flags.BoolVar(&f.untilStdinCloses, "until-stdin-closes", false, "stop as well when standard input ends, as it does when a parent process dies")
	return flags
}

func (f upFlags) run(ctx context.Context, in io.Reader, out io.Writer) error {
	cfg, err := f.config()
	if err != nil {
		return err
	}
	kubeconfig := ""
	if f.writeKubeconfig != "" {
		if kubeconfig, err = filepath.Abs(f.writeKubeconfig); err != nil {
			return fmt.Errorf("resolving %s: %w", f.writeKubeconfig, err)
		}
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if f.untilStdinCloses {
		go func() {
			defer cancel()
			_, _ = io.Copy(io.Discard, in) // an error means that it is closed, too
		}()
	}
	return server.Run(ctx, cfg, func(ready server.Ready) error {
		if kubeconfig != "" {
			if err := copyFile(ready.AdminKubeconfig, kubeconfig); err != nil {
				return err
			}
		}
		return json.NewEncoder(out).Encode(ready)
	})
}

// config turns the flags into a configuration whose paths hold in any working
// directory.
func (f upFlags) config() (server.Config, error) {
	cfg := server.Config{ServiceClusterIPRange: f.serviceClusterIPRange}
	var err error
	if cfg.Listen, err = netip.ParseAddrPort(f.listen); err != nil {
		return cfg, fmt.Errorf("reading --listen: %w", err)
	}
	if cfg.Listen.Addr().IsUnspecified() {
		return cfg, fmt.Errorf("reading --listen: %s is not one address, which clients could verify", cfg.Listen.Addr())
	}
	for _, text := range f.serviceAccounts {
		account, err := server.ParseAccount(text)
		if err != nil {
			return cfg, fmt.Errorf("reading --service-account: %w", err)
		}
		cfg.Accounts = append(cfg.Accounts, account)
	}
	if f.auditLog != "" && len(cfg.Accounts) == 0 {
		return cfg, errors.New("reading --audit-log: it records the requests of service accounts; name one with --service-account")
	}
	cfg.Manifests = append([]string{}, f.manifests...)
	paths := []*string{&cfg.Dir, &cfg.AuditLog}
	cfg.Dir, cfg.AuditLog = f.dir, f.auditLog
	for i := range cfg.Manifests {
		paths = append(paths, &cfg.Manifests[i])
	}
	for _, path := range paths {
		if *path == "" {
			continue
		}
		if *path, err = filepath.Abs(*path); err != nil {
			return cfg, fmt.Errorf("resolving path: %w", err)
		}
	}
	return cfg, nil
}

// copyFile copies from to to, which only its owner may read.
func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("reading kubeconfig: %w", err)
	}
	if err := os.WriteFile(to, data, 0o600); err != nil {
		return fmt.Errorf("writing kubeconfig: %w", err)
	}
	return nil
}
