package server

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/embed"
)

// The sockets of etcd, relative to the cluster's folder, which is the working
// directory: a path of any depth would not fit into a socket's address.
const (
	storeSocket = "etcd.sock"
	peerSocket  = "etcd-peer.sock"
)

// startStore runs etcd on files in the working directory. It is reached by a
// socket in that folder alone, so only who may enter the folder may use it. It
// is stopped by Close, after everything that uses it.
func startStore(ctx context.Context, logs string) (*embed.Etcd, error) {
	cfg := embed.NewConfig()
	cfg.Name = "devcluster"
	cfg.Dir = "etcd"
	cfg.LogLevel = "warn"
	cfg.LogOutputs = []string{filepath.Join(logs, "etcd.log")}
	cfg.EnableGRPCGateway = false
	// Data has to outlive the process, not the machine's power supply.
	cfg.UnsafeNoFsync = true
	client, peer := url.URL{Scheme: "unix", Host: storeSocket}, url.URL{Scheme: "unix", Host: peerSocket}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	store, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("starting etcd: %w", err)
	}
	select {
	case <-store.Server.ReadyNotify():
		return store, nil
	case err := <-store.Err():
		err = fmt.Errorf("starting etcd: %w", err)
		store.Close()
		return nil, err
	case <-store.Server.StopNotify():
		store.Close()
		return nil, errors.New("starting etcd: it stopped by itself; its log says why")
	case <-ctx.Done():
		store.Close()
		return nil, fmt.Errorf("starting etcd: %w", context.Cause(ctx))
	}
}
