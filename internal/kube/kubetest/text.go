package kubetest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairlead-lb/fairlead/internal/kube"
	"github.com/fairlead-lb/fairlead/internal/model"
)

// Text returns what stands in the cluster because of the controller, sorted:
// what Services say, the records and the reservations. Equal states have equal
// texts; the times of conditions, resourceVersions and the controller's uids
// are left out.
func (c *Cluster) Text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out strings.Builder
	for _, k := range sortedKeys(c.services) {
		serviceText(&out, c.services[k])
	}
	for _, name := range sortedNames(c.records) {
		s := c.records[name].Spec
		fmt.Fprintf(&out, "record %s uid %s provider %s class %q addresses %v pool %q ports %v share %v accepted %v\n",
			name, s.ServiceRef.UID, s.Provider, s.Class, s.Addresses, s.Pool, s.Ports, s.Share, s.AcceptedOptions)
	}
	for _, name := range sortedNames(c.reservations) {
		s := c.reservations[name].Spec
		fmt.Fprintf(&out, "reservation %s for %s/%s until %s\n", name, s.For.Namespace, s.For.Name, s.Until.UTC().Format(time.RFC3339))
	}
	return out.String()
}

func serviceText(out *strings.Builder, s *service) {
	class := "-"
	if s.Spec.LoadBalancerClass != nil {
		class = *s.Spec.LoadBalancerClass
	}
	fmt.Fprintf(out, "service %s/%s uid %s type %s class %s", s.Namespace, s.Name, s.UID, s.Spec.Type, class)
	if s.DeletionTimestamp != nil {
		out.WriteString(" being deleted")
	}
	fmt.Fprintf(out, "\n  finalizers %v\n", s.Finalizers)
	for _, k := range slices.Sorted(maps.Keys(s.Annotations)) {
		fmt.Fprintf(out, "  annotation %s=%s\n", k, s.Annotations[k])
	}
	for _, i := range s.Status.LoadBalancer.Ingress {
		fmt.Fprintf(out, "  ingress %s\n", ingressText(i))
	}
	conditions := slices.SortedFunc(slices.Values(s.Status.Conditions), func(a, b metav1.Condition) int { return cmp.Compare(a.Type, b.Type) })
	for _, x := range conditions {
		fmt.Fprintf(out, "  condition %s=%s %s: %s\n", x.Type, x.Status, x.Reason, x.Message)
	}
}

func ingressText(i corev1.LoadBalancerIngress) string {
	text := i.IP + i.Hostname
	if i.IPMode != nil {
		text += " " + string(*i.IPMode)
	}
	for _, p := range i.Ports {
		text += fmt.Sprintf(" %s/%d", p.Protocol, p.Port)
		if p.Error != nil {
			text += "=" + *p.Error
		}
	}
	return text
}

func sortedKeys[V any](m map[model.Key]V) []model.Key {
	return slices.SortedFunc(maps.Keys(m), model.Key.Compare)
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// managedFields returns what the API server says about who owns what.
func (s *service) managedFields() []metav1.ManagedFieldsEntry {
	var out []metav1.ManagedFieldsEntry
	if ours := s.ownText(); ours != "" {
		out = append(out, entry(kube.FieldManager, metav1.ManagedFieldsOperationApply, ours))
	}
	if s.ingress != "" && s.ingress != kube.FieldManager {
		out = append(out, entry(s.ingress, metav1.ManagedFieldsOperationUpdate, `{"f:status":{"f:loadBalancer":{"f:ingress":{}}}}`))
	}
	return out
}

func entry(manager string, op metav1.ManagedFieldsOperationType, text string) metav1.ManagedFieldsEntry {
	at := metav1.NewTime(time.Unix(0, 0))
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: op, Time: &at, Subresource: "status", FieldsV1: metav1.NewFieldsV1(text)}
}

// ownText is the field set of our applies, empty when we own nothing.
func (s *service) ownText() string {
	var status []string
	if len(s.conditions) > 0 {
		status = append(status, `"f:conditions":{`+fieldsText(s.conditions, func(t string) string { return fmt.Sprintf(`"k:{\"type\":\"%s\"}":{}`, t) })+"}")
	}
	if s.ingress == kube.FieldManager {
		status = append(status, `"f:loadBalancer":{"f:ingress":{}}`)
	}
	var parts []string
	if len(s.annotations) > 0 {
		parts = append(parts, `"f:metadata":{"f:annotations":{`+fieldsText(s.annotations, func(k string) string { return fmt.Sprintf(`"f:%s":{}`, k) })+"}}")
	}
	if len(status) > 0 {
		parts = append(parts, `"f:status":{`+strings.Join(status, ",")+"}")
	}
	if len(parts) == 0 {
		return ""
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func fieldsText(names []string, field func(string) string) string {
	texts := make([]string, len(names))
	for i, n := range names {
		texts[i] = field(n)
	}
	return strings.Join(texts, ",")
}

func ownsAny(svc *corev1.Service) bool {
	return slices.ContainsFunc(svc.ManagedFields, func(m metav1.ManagedFieldsEntry) bool { return m.Manager == kube.FieldManager })
}
