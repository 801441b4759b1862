package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fairlead-lb/fairlead/api/config"
	"github.com/fairlead-lb/fairlead/api/v1alpha1"
	"github.com/fairlead-lb/fairlead/internal/kube"
	"github.com/fairlead-lb/fairlead/internal/model"
)

// services are the Services of a cluster. See kube.User for the contracts.
type services interface {
	Namespace() string
	Service(ctx context.Context, key model.Key) (*corev1.Service, error)
	Services(ctx context.Context, namespace string, selector labels.Selector) ([]corev1.Service, error)
	Watch(ctx context.Context, key model.Key, see func(*corev1.Service) bool) error
}

// surroundings are what bears on one Service.
type surroundings interface {
	Slices(ctx context.Context, key model.Key) ([]discoveryv1.EndpointSlice, error)
	Nodes(ctx context.Context) ([]corev1.Node, error)
	Events(ctx context.Context, svc *corev1.Service) ([]corev1.Event, error)
	Record(ctx context.Context, key model.Key) (*v1alpha1.ServiceRecord, error)
}

// ledger is what Fairlead remembers.
type ledger interface {
	Records(ctx context.Context) ([]v1alpha1.ServiceRecord, error)
	Reservations(ctx context.Context) ([]v1alpha1.AddressReservation, error)
	Forget(ctx context.Context, key model.Key) error
	Leader(ctx context.Context, now time.Time) (string, error)
}

// editor writes, or tries to.
type editor interface {
	DryRun(ctx context.Context, manifest []byte, live *corev1.Service) (*corev1.Service, error)
	Annotate(ctx context.Context, svc *corev1.Service, annotations map[string]string) error
	Release(ctx context.Context, svc *corev1.Service, finalizers []string) error
}

// access is a cluster, as one person may use it.
type access struct {
	services
	surroundings
	ledger
	editor
	// program is what people type to run this program.
	program string
}

func openCluster(o kube.UserOptions) (*access, error) {
	user, err := kube.NewUser(o)
	if err != nil {
		return nil, err
	}
	return &access{services: user, surroundings: user, ledger: user, editor: user}, nil
}

// clusterFlags are the flags of a command that reads a cluster.
func clusterFlags(cmd *cobra.Command) *kube.UserOptions {
	o := &kube.UserOptions{}
	f := cmd.Flags()
	f.StringVar(&o.Kubeconfig, "kubeconfig", "", "`file` that says how to reach the cluster (default: KUBECONFIG, then ~/.kube/config)")
	f.StringVar(&o.Context, "context", "", "`name` of the kubeconfig's context to use")
	f.StringVarP(&o.Namespace, "namespace", "n", "", "`namespace` of the Service (default: the context's)")
	f.StringVar(&o.SystemNamespace, "system-namespace", config.New().Namespace, "`namespace` that Fairlead runs in")
	f.DurationVar(&o.Timeout, "request-timeout", 30*time.Second, "how long a single request may take; 0 is for ever")
	return o
}

// outputFlag adds -o with the words that the command knows.
func outputFlag(cmd *cobra.Command, words ...string) *oneOf {
	o := &oneOf{words: words}
	cmd.Flags().VarP(o, "output", "o", "output format")
	return o
}

// serviceKey reads "svc/NAME", "service/NAME" and "NAME".
func serviceKey(arg, namespace string) (model.Key, error) {
	kind, name, found := strings.Cut(arg, "/")
	if !found {
		kind, name = "svc", arg
	}
	switch kind {
	case "svc", "service", "services":
	default:
		return model.Key{}, usage("%q is no Service; write svc/NAME", arg)
	}
	if len(validation.IsDNS1123Label(name)) > 0 {
		return model.Key{}, usage("%q cannot be the name of a Service; write svc/NAME", name)
	}
	return model.Key{Namespace: namespace, Name: name}, nil
}

// find reads the Service that an argument names; that there is none is an error.
func find(ctx context.Context, a *access, arg string) (*corev1.Service, error) {
	key, err := serviceKey(arg, a.Namespace())
	if err != nil {
		return nil, err
	}
	svc, err := a.Service(ctx, key)
	if err != nil {
		return nil, err
	}
	if svc == nil {
		return nil, fmt.Errorf("service %q is not in namespace %q; \"%s get -A\" lists those that are served", key.Name, key.Namespace, a.program)
	}
	return svc, nil
}
