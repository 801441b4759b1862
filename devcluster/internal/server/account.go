package server

import (
	"context"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fairlead-lb/fairlead/devcluster/internal/pki"
)

// tokenSeconds is how long a service account's token is valid: as long as the
// client certificate beside it, since both are renewed by a start.
const tokenSeconds = 365 * 24 * 60 * 60

// Account names a service account.
type Account struct {
	Namespace string
	Name      string
}

// ParseAccount reads NAMESPACE/NAME.
func ParseAccount(text string) (Account, error) {
	namespace, name, ok := strings.Cut(text, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return Account{}, fmt.Errorf("service account %q is not of the form NAMESPACE/NAME", text)
	}
	return Account{Namespace: namespace, Name: name}, nil
}

// String is the account as ParseAccount reads it.
func (a Account) String() string { return a.Namespace + "/" + a.Name }

// kubeconfigFile is the account's kubeconfig in the cluster's folder.
func (a Account) kubeconfigFile() string { return a.Namespace + "." + a.Name + ".kubeconfig" }

// writeAccount gives the account, which must exist, a kubeconfig with a token
// from the TokenRequest API (authentication.k8s.io/v1).
func writeAccount(ctx context.Context, client kubernetes.Interface, authority pki.Authority, a Account, server string) error {
	seconds := int64(tokenSeconds)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := client.CoreV1().ServiceAccounts(a.Namespace).CreateToken(ctx, a.Name, request, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("requesting token of service account %s, which the manifests must hold: %w", a, err)
	}
	return authority.WriteKubeconfig(a.kubeconfigFile(), server, a.Name, pki.Credential{Token: answer.Status.Token})
}
