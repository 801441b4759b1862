package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fairlead-lb/fairlead/devcluster/internal/manifest"
	"github.com/fairlead-lb/fairlead/devcluster/internal/pki"
)

// adminGroup is the group that RBAC always allows everything.
const adminGroup = "system:masters"

// cluster is what a start has made so far.
type cluster struct {
	cfg       Config
	objects   []*unstructured.Unstructured // of the manifests
	authority pki.Authority
	listener  net.Listener
	flags     []string
	url       string
	admin     *rest.Config
	client    kubernetes.Interface
}

// prepare makes all that the API server needs before it runs.
func (c *cluster) prepare() error {
	var err error
	if c.authority, err = pki.OpenAuthority(pkiDir); err != nil {
		return err
	}
	tokenKey, err := pki.SigningKey(pkiDir)
	if err != nil {
		return err
	}
	if err := issueServing(c.authority, pkiDir, c.cfg.Listen.Addr()); err != nil {
		return err
	}
	if c.cfg.AuditLog != "" {
		if err := os.WriteFile(auditPolicy, []byte(auditPolicyFor(c.cfg.Accounts)), 0o600); err != nil {
			return fmt.Errorf("writing audit policy: %w", err)
		}
	}
	if c.listener, err = listen(c.cfg.Listen); err != nil {
		return err
	}
	c.url = "https://" + c.listener.Addr().String()
	c.flags = apiServerFlags(c.cfg, c.listener, tokenKey)
	if err := c.writeAdmin(adminKubeconfig, "admin"); err != nil {
		return err
	}
	if err := c.writeAdmin(controllerKubeconfig, "system:kube-controller-manager"); err != nil {
		return err
	}
	return c.connect()
}

// writeAdmin gives user, whose rights are unlimited, a kubeconfig.
func (c *cluster) writeAdmin(path, user string) error {
	pair, err := c.authority.Issue(pki.Subject{Name: user, Groups: []string{adminGroup}})
	if err != nil {
		return err
	}
	return c.authority.WriteKubeconfig(path, c.url, user, pki.Credential{Client: pair})
}

func (c *cluster) connect() error {
	config, err := clientcmd.BuildConfigFromFlags("", adminKubeconfig)
	if err != nil {
		return fmt.Errorf("reading the cluster's own kubeconfig: %w", err)
	}
	config.QPS = -1 // a start is a handful of requests, none of which should wait
	c.admin = config
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("making client: %w", err)
	}
	return nil
}

func (c *cluster) apiReady(ctx context.Context) error {
	return c.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

// usable tells whether the controllers watch and have made what pods need.
func (c *cluster) usable(watching <-chan struct{}) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-watching:
		default:
			return errors.New("controllers do not watch yet")
		}
		_, err := c.client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	}
}

// furnish applies the manifests and writes the accounts' kubeconfigs.
func (c *cluster) furnish(ctx context.Context) (Ready, error) {
	if err := manifest.Apply(ctx, c.admin, c.objects); err != nil {
		return Ready{}, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return Ready{}, fmt.Errorf("finding the cluster's folder: %w", err)
	}
	info := Ready{
		Server:                    c.url,
		AdminKubeconfig:           filepath.Join(dir, adminKubeconfig),
		ServiceAccountKubeconfigs: map[string]string{},
		AuditLog:                  c.cfg.AuditLog,
	}
	for _, account := range c.cfg.Accounts {
		if err := writeAccount(ctx, c.client, c.authority, account, c.url); err != nil {
			return Ready{}, err
		}
		info.ServiceAccountKubeconfigs[account.String()] = filepath.Join(dir, account.kubeconfigFile())
	}
	return info, nil
}
