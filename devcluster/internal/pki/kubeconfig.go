package pki

import (
	"fmt"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// contextName names the one cluster and the one context of a kubeconfig.
const contextName = "devcluster"

// Credential is how a user proves who it is: by a client certificate or by a
// bearer token. Exactly one of the two is set.
type Credential struct {
	Client Pair
	Token  string
}

// WriteKubeconfig writes to path how user reaches the API server at the URL
// server, whose certificate the authority vouches for. The file is complete in
// itself, readable by its owner alone, and replaced in one step.
func (a Authority) WriteKubeconfig(path, server, user string, c Credential) error {
	config := api.NewConfig()
	config.Clusters[contextName] = &api.Cluster{Server: server, CertificateAuthorityData: a.CertPEM()}
	config.AuthInfos[user] = &api.AuthInfo{
		ClientCertificateData: c.Client.Cert,
		ClientKeyData:         c.Client.Key,
		Token:                 c.Token,
	}
	config.Contexts[contextName] = &api.Context{Cluster: contextName, AuthInfo: user}
	config.CurrentContext = contextName
	data, err := clientcmd.Write(*config)
	if err != nil {
		return fmt.Errorf("encoding kubeconfig of %s: %w", user, err)
	}
	temporary := path + ".new"
	if err := os.WriteFile(temporary, data, 0o600); err != nil {
		return fmt.Errorf("writing kubeconfig of %s: %w", user, err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("putting kubeconfig of %s in place: %w", user, err)
	}
	return nil
}
