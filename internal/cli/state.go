package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairlead-lb/fairlead/api/annotation"
	"github.com/fairlead-lb/fairlead/api/v1alpha1"
	"github.com/fairlead-lb/fairlead/internal/kube"
	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/status"
	"github.com/fairlead-lb/fairlead/internal/translate"
)

// The words of the column STATUS that are no reasons of a condition.
const (
	statusDeleting = "Deleting"
	statusNotSeen  = "NotSeen"
	statusUpdating = "Updating"
)

// balancer is one Service in a list: an item of BalancerList.
type balancer struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Class is spec.loadBalancerClass; Provider is empty when it is not known.
	Class     string   `json:"class,omitempty"`
	Provider  string   `json:"provider,omitempty"`
	Addresses []string `json:"addresses"`
	Ports     []port   `json:"ports"`
	// Accepted and Programmed are the statuses of the conditions: True, False
	// or Unknown.
	Accepted   string `json:"accepted"`
	Programmed string `json:"programmed"`
	// UpToDate tells that the conditions are about the present spec.
	UpToDate bool `json:"upToDate"`
	// Status sums it up in one word; Reason and Message are of the condition
	// that decides it.
	Status  string    `json:"status"`
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"`
	Created time.Time `json:"created"`
}

// port is one port of a Service.
type port struct {
	Name     string `json:"name,omitempty"`
	Protocol string `json:"protocol"`
	Port     int32  `json:"port"`
	NodePort int32  `json:"nodePort,omitempty"`
}

// ours tells whether a Service is Fairlead's by anything that ordinary users
// can see: its class, our finalizer, or what we said about it.
func ours(svc *corev1.Service) bool {
	return slices.Contains(svc.Finalizers, translate.Finalizer) || kube.Speaks(svc) ||
		(svc.Spec.Type == corev1.ServiceTypeLoadBalancer && strings.HasPrefix(classOf(svc), translate.ClassPrefix))
}

func classOf(svc *corev1.Service) string {
	if svc.Spec.LoadBalancerClass == nil {
		return ""
	}
	return *svc.Spec.LoadBalancerClass
}

// providerOf names who serves a Service, as far as the Service and its record,
// which may be nil, tell.
func providerOf(svc *corev1.Service, record *v1alpha1.ServiceRecord) string {
	if record != nil {
		return record.Spec.Provider
	}
	if name, ok := strings.CutPrefix(classOf(svc), translate.ClassPrefix); ok {
		return name
	}
	if classOf(svc) == "" {
		return svc.Annotations[annotation.ProviderName.Key()]
	}
	return ""
}

// upToDate tells whether the conditions of a Service are about its present spec.
func upToDate(svc *corev1.Service) bool {
	return svc.Annotations[annotation.Observed.Key()] == translate.Fingerprint(svc)
}

func published(svc *corev1.Service) []string {
	out := []string{}
	for _, i := range svc.Status.LoadBalancer.Ingress {
		if i.Hostname != "" {
			out = append(out, i.Hostname)
		}
		if i.IP != "" {
			out = append(out, i.IP)
		}
	}
	return out
}

// balancerOf sums a Service up.
func balancerOf(svc *corev1.Service, provider string) balancer {
	b := balancer{
		Namespace: svc.Namespace, Name: svc.Name, Class: classOf(svc), Provider: provider,
		Addresses: published(svc), Ports: []port{},
		Accepted: conditionText(svc, status.Accepted), Programmed: conditionText(svc, status.Programmed),
		UpToDate: upToDate(svc), Created: svc.CreationTimestamp.UTC(),
	}
	for _, p := range svc.Spec.Ports {
		b.Ports = append(b.Ports, port{p.Name, string(portOf(p).Protocol), p.Port, p.NodePort})
	}
	b.sumUp(svc)
	return b
}

func (b *balancer) sumUp(svc *corev1.Service) {
	accepted, programmed := kube.FindCondition(svc, status.Accepted), kube.FindCondition(svc, status.Programmed)
	decides := programmed
	switch {
	case svc.DeletionTimestamp != nil:
		b.Status, b.Message = statusDeleting, "It is being deleted; its load balancer goes first."
	case programmed == nil:
		b.Status, b.Message = statusNotSeen, notSeen(svc)
	case !b.UpToDate:
		b.Status, b.Message = statusUpdating, "The controller has not acted on the present spec yet."
	case programmed.Status != metav1.ConditionTrue:
		b.Status = programmed.Reason
		if programmed.Reason == status.ReasonNotAccepted && accepted != nil {
			decides = accepted
		}
	case accepted != nil && accepted.Status != metav1.ConditionTrue:
		b.Status, decides = status.ReasonProgrammed+","+accepted.Reason, accepted
	default:
		b.Status = status.ReasonProgrammed
	}
	if decides != nil && b.Message == "" {
		b.Reason, b.Message = decides.Reason, decides.Message
	}
}

// notSeen says why a Service may be without conditions.
func notSeen(svc *corev1.Service) string {
	class := classOf(svc)
	switch {
	case svc.Spec.Type != corev1.ServiceTypeLoadBalancer:
		return otherType(svc)
	case unknownClass(svc):
		return fmt.Sprintf("Fairlead has no provider of class %s; create it again with %s.", class, knownClasses())
	case class != "":
		return fmt.Sprintf("No controller has looked at it yet; see whether Fairlead runs, and whether its configuration has the provider of class %s.", class)
	}
	return "No controller has looked at it yet; see whether Fairlead runs, and whether its configuration sets defaultProvider."
}

func otherType(svc *corev1.Service) string {
	return "spec.type is " + string(svc.Spec.Type) + "; only LoadBalancer has a load balancer."
}

// unknownClass tells whether a class is of our domain and of no provider.
func unknownClass(svc *corev1.Service) bool {
	name, ok := strings.CutPrefix(classOf(svc), translate.ClassPrefix)
	return ok && !slices.Contains(annotation.Providers(), annotation.Provider(name))
}

func knownClasses() string {
	var classes []string
	for _, p := range annotation.Providers() {
		classes = append(classes, translate.ClassPrefix+string(p))
	}
	return "spec.loadBalancerClass " + strings.Join(classes, " or ")
}

func conditionText(svc *corev1.Service, name string) string {
	if c := kube.FindCondition(svc, name); c != nil {
		return string(c.Status)
	}
	return string(metav1.ConditionUnknown)
}

func portOf(p corev1.ServicePort) model.Port {
	protocol := model.Protocol(p.Protocol)
	if protocol == "" {
		protocol = model.TCP
	}
	return model.Port{Protocol: protocol, Number: uint16(p.Port)}
}
