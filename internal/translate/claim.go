package translate

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/fairlead-lb/fairlead/api/annotation"
)

// The finalizers and the prefix of our load balancer classes.
const (
	// Finalizer is the guard of our own: as long as a Service carries it, its
	// clean-up is ours, whatever its class and type say by then.
	Finalizer = "fairlead.dev/load-balancer"
	// SharedFinalizer is upstream's (KEP-980). The upstream service controller
	// strips it from Services of any class, so it guards nothing; it is set on
	// class-less Services only, where users and tests expect it.
	SharedFinalizer = "service.kubernetes.io/load-balancer-cleanup"
	// ClassPrefix and a provider's name make its loadBalancerClass.
	ClassPrefix = "fairlead.dev/"
)

// Claim says what a Service is to us.
type Claim struct {
	Verdict Verdict
	// Provider serves the Service when the verdict is Serve.
	Provider string
	// Finalizers are those the Service has to carry.
	Finalizers []string
}

// Verdict is what to do with a Service.
type Verdict string

// The verdicts.
const (
	// Ignore: never ours; nothing is read further and nothing written.
	Ignore Verdict = "ignore"
	// Serve: ours, wanted.
	Serve Verdict = "serve"
	// Clean: ours by finalizer or record, no longer wanted.
	Clean Verdict = "clean"
)

// Scope is which Services this controller serves.
type Scope struct {
	// Providers are the names of the providers in service.
	Providers []string
	// Default is the provider of class-less Services; empty: they are left alone.
	Default string
	// Selected tells that the configured selectors of Services and namespaces
	// take this Service.
	Selected bool
	// Recorded tells that a record of ours exists for the Service, and
	// RecordedProvider whom it names.
	Recorded         bool
	RecordedProvider string
}

// ClaimOf decides what a Service, nil when it does not exist, is to us. Whether
// clean-up is ours is decided by finalizer and record, never by class: between
// two writes a Service may have lost one class and got another.
func ClaimOf(svc *corev1.Service, scope Scope) Claim {
	if svc == nil {
		return leftover(scope.Recorded)
	}
	provider := providerOf(svc, scope)
	if provider != "" && svc.DeletionTimestamp == nil {
		return Claim{Verdict: Serve, Provider: provider, Finalizers: finalizersOf(svc)}
	}
	return leftover(scope.Recorded || slices.Contains(svc.Finalizers, Finalizer))
}

func leftover(ours bool) Claim {
	if ours {
		return Claim{Verdict: Clean}
	}
	return Claim{Verdict: Ignore}
}

// providerOf names the provider that serves the Service, or nothing.
func providerOf(svc *corev1.Service, scope Scope) string {
	if svc.Spec.Type != corev1.ServiceTypeLoadBalancer || !scope.Selected {
		return ""
	}
	class := svc.Spec.LoadBalancerClass
	if class == nil {
		return defaultProviderOf(svc, scope)
	}
	for _, name := range scope.Providers {
		if *class == ClassPrefix+name {
			return name
		}
	}
	return ""
}

// defaultProviderOf chooses for a Service without a class, where we are the
// default: the provider that serves it already, the one it names, the
// configured one.
func defaultProviderOf(svc *corev1.Service, scope Scope) string {
	if scope.Default == "" {
		return ""
	}
	for _, name := range []string{scope.RecordedProvider, svc.Annotations[annotation.ProviderName.Key()]} {
		if slices.Contains(scope.Providers, name) {
			return name
		}
	}
	return scope.Default
}

func finalizersOf(svc *corev1.Service) []string {
	if svc.Spec.LoadBalancerClass == nil {
		return []string{Finalizer, SharedFinalizer}
	}
	return []string{Finalizer}
}
