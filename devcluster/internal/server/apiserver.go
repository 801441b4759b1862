package server

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"github.com/fairlead-lb/fairlead/devcluster/internal/pki"
)

const (
	servingCert = "apiserver.crt"
	servingKey  = "apiserver.key"
	portFile    = "port"
	auditPolicy = "audit-policy.yaml"
)

// listen opens the API server's socket. With port 0 the port of the last start
// is taken again if it is free, so that kubeconfigs stay true, and any free one
// otherwise.
func listen(address netip.AddrPort) (net.Listener, error) {
	if last, err := os.ReadFile(portFile); err == nil && address.Port() == 0 {
		again := net.JoinHostPort(address.Addr().String(), strings.TrimSpace(string(last)))
		if l, err := net.Listen("tcp", again); err == nil {
			return l, nil
		}
	}
	l, err := net.Listen("tcp", address.String())
	if err != nil {
		return nil, fmt.Errorf("listening for the API server: %w", err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return nil, fmt.Errorf("reading the API server's port: %w", err)
	}
	if err := os.WriteFile(portFile, []byte(port+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("noting the API server's port: %w", err)
	}
	return l, nil
}

// issueServing writes the certificate with which the API server answers at
// address, and inside the cluster.
func issueServing(authority pki.Authority, dir string, address netip.Addr) error {
	pair, err := authority.Issue(pki.Subject{Name: "kube-apiserver", Hosts: []string{
		address.String(), "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
	}})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, servingCert), pair.Cert, 0o600); err != nil {
		return fmt.Errorf("writing the API server's certificate: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, servingKey), pair.Key, 0o600); err != nil {
		return fmt.Errorf("writing the API server's key: %w", err)
	}
	return nil
}

// apiServerFlags are the flags of kube-apiserver, as an operator would give them.
func apiServerFlags(cfg Config, listener net.Listener, tokenKey string) []string {
	host, _, _ := net.SplitHostPort(listener.Addr().String()) // a listener's own address always splits
	flags := []string{
		"--etcd-servers=unix://" + storeSocket,
		"--advertise-address=" + host,
		// No pod reaches the API server by the Service "kubernetes", and
		// Endpoints may not hold a loopback address.
		"--endpoint-reconciler-type=none",
		"--cert-dir=" + pkiDir,
		"--tls-cert-file=" + filepath.Join(pkiDir, servingCert),
		"--tls-private-key-file=" + filepath.Join(pkiDir, servingKey),
		"--client-ca-file=" + pki.CertFile(pkiDir),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + tokenKey,
		"--service-account-signing-key-file=" + tokenKey,
		"--service-cluster-ip-range=" + cfg.ServiceClusterIPRange,
		"--authorization-mode=RBAC",
		"--allow-privileged=true",
		// Nodes are objects that someone creates; no controller runs that
		// would take the taint "not ready" away again.
		"--disable-admission-plugins=TaintNodesByCondition",
	}
	if cfg.AuditLog != "" {
		flags = append(flags, "--audit-policy-file="+auditPolicy, "--audit-log-path="+cfg.AuditLog,
			"--audit-log-maxsize=100000") // MB: one file, so that nothing is missed by who reads it
	}
	return flags
}

// runAPIServer serves on listener until ctx ends.
func runAPIServer(ctx context.Context, listener net.Listener, flags []string) error {
	opts := options.NewServerRunOptions()
	set := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, group := range opts.Flags().FlagSets {
		set.AddFlagSet(group)
	}
	if err := set.Parse(flags); err != nil {
		return fmt.Errorf("parsing flags: %w", err)
	}
	opts.SecureServing.Listener = listener
	if err := opts.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return fmt.Errorf("setting versions and feature gates: %w", err)
	}
	completed, err := opts.Complete(ctx)
	if err != nil {
		return fmt.Errorf("completing options: %w", err)
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return fmt.Errorf("checking options: %w", utilerrors.NewAggregate(errs))
	}
	return app.Run(ctx, completed)
}

// auditPolicyFor is a policy that records the requests of accounts, without
// their bodies, and of no one else.
func auditPolicyFor(accounts []Account) string {
	var users strings.Builder
	for _, a := range accounts {
		fmt.Fprintf(&users, "  - system:serviceaccount:%s:%s\n", a.Namespace, a.Name)
	}
	return `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users:
` + users.String() + `- level: None
`
}
