package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/status"
)

// Said is our complete part of a Service's status and metadata. Every apply
// carries all of it: what is left out of a server-side apply is given up.
type Said struct {
	// Annotations are those we own, by key.
	Annotations map[string]string
	Report      status.Report
}

// ApplyStatus makes a Service say what it shall: one server-side apply on the
// status subresource, with uid and by force, or no write at all when it says so
// already. It reports whether it wrote. The error wraps ErrMovedOn when the
// Service is no longer what svc says.
func (c *Client) ApplyStatus(ctx context.Context, svc *corev1.Service, said Said, now time.Time) (bool, error) {
	if Says(svc, said) {
		return false, nil
	}
	return true, c.apply(ctx, svc, ApplyBody(svc, said, now))
}

// ClearStatus gives up everything we said about a Service that is not ours any
// more: what nobody else owns goes, an ingress that another manager wrote stays.
func (c *Client) ClearStatus(ctx context.Context, svc *corev1.Service) error {
	if ownFields(svc) == "" {
		return nil
	}
	said := Said{Report: status.Report{KeepRival: true}}
	return c.apply(ctx, svc, ApplyBody(svc, said, time.Time{}))
}

func (c *Client) apply(ctx context.Context, svc *corev1.Service, body map[string]any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encoding status of service %s: %w", KeyOf(svc), err)
	}
	err = c.client.Status().Patch(ctx, svc, client.RawPatch(types.ApplyPatchType, text), client.FieldOwner(FieldManager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("applying status of service %s: %w", KeyOf(svc), movedOn(err))
	}
	return nil
}

// ApplyBody is written by hand, because the typed form cannot say "an empty
// ingress": omitting it would leave one that another manager owns.
func ApplyBody(svc *corev1.Service, said Said, now time.Time) map[string]any {
	metadata := map[string]any{"name": svc.Name, "namespace": svc.Namespace, "uid": svc.UID}
	if len(said.Annotations) > 0 {
		metadata["annotations"] = said.Annotations
	}
	state := map[string]any{}
	if svc.Spec.Type == corev1.ServiceTypeLoadBalancer && !said.Report.KeepRival {
		state["loadBalancer"] = map[string]any{"ingress": ingressOf(said.Report.Ingress)}
	}
	if conditions := conditionsOf(svc, said.Report.Conditions, now); len(conditions) > 0 {
		state["conditions"] = conditions
	}
	return map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": metadata, "status": state}
}

// conditionsOf keeps the time of a condition that has not changed its status.
func conditionsOf(svc *corev1.Service, want []status.Condition, now time.Time) []metav1.Condition {
	out := make([]metav1.Condition, 0, len(want))
	for _, w := range want {
		c := metav1.Condition{
			Type: w.Type, Status: conditionStatus(w.True), Reason: w.Reason, Message: w.Message,
			LastTransitionTime: metav1.NewTime(now),
		}
		if have := FindCondition(svc, w.Type); have != nil && have.Status == c.Status && !have.LastTransitionTime.IsZero() {
			c.LastTransitionTime = have.LastTransitionTime
		}
		out = append(out, c)
	}
	return out
}

// FindCondition returns the condition of a type, or nil.
func FindCondition(svc *corev1.Service, conditionType string) *metav1.Condition {
	for i := range svc.Status.Conditions {
		if svc.Status.Conditions[i].Type == conditionType {
			return &svc.Status.Conditions[i]
		}
	}
	return nil
}

func conditionStatus(yes bool) metav1.ConditionStatus {
	if yes {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

func ingressOf(in []status.Ingress) []corev1.LoadBalancerIngress {
	out := make([]corev1.LoadBalancerIngress, 0, len(in))
	for _, i := range in {
		entry := corev1.LoadBalancerIngress{Hostname: i.Hostname}
		if i.IP.IsValid() {
			mode := corev1.LoadBalancerIPModeVIP
			if i.Proxy {
				mode = corev1.LoadBalancerIPModeProxy
			}
			entry.IP, entry.IPMode = i.IP.String(), &mode
		}
		for _, p := range i.Ports {
			port := corev1.PortStatus{Port: int32(p.Port.Number), Protocol: corev1.Protocol(p.Port.Protocol)}
			if p.Error != "" {
				port.Error = &p.Error
			}
			entry.Ports = append(entry.Ports, port)
		}
		out = append(out, entry)
	}
	return out
}

// IngressOf reads what a Service publishes; entries that are no address and no
// host name are passed over.
func IngressOf(svc *corev1.Service) []status.Ingress {
	var out []status.Ingress
	for _, i := range svc.Status.LoadBalancer.Ingress {
		entry := status.Ingress{Hostname: i.Hostname}
		if i.IP != "" {
			ip, err := netip.ParseAddr(i.IP)
			if err != nil {
				continue
			}
			entry.IP = ip.Unmap()
			entry.Proxy = i.IPMode != nil && *i.IPMode == corev1.LoadBalancerIPModeProxy
		}
		for _, p := range i.Ports {
			port := status.PortStatus{Port: model.Port{Protocol: model.Protocol(p.Protocol), Number: uint16(p.Port)}}
			if p.Error != nil {
				port.Error = *p.Error
			}
			entry.Ports = append(entry.Ports, port)
		}
		out = append(out, entry)
	}
	return out
}

// AddressesOf returns the addresses that a Service publishes.
func AddressesOf(svc *corev1.Service) []netip.Addr {
	var out []netip.Addr
	for _, i := range IngressOf(svc) {
		if i.IP.IsValid() {
			out = append(out, i.IP)
		}
	}
	return out
}

// Says tells whether the Service says all that it shall and nothing of ours
// that it shall not.
func Says(svc *corev1.Service, said Said) bool {
	for key, value := range said.Annotations {
		if have, ok := svc.Annotations[key]; !ok || have != value {
			return false
		}
	}
	for _, w := range said.Report.Conditions {
		c := FindCondition(svc, w.Type)
		if c == nil || c.Status != conditionStatus(w.True) || c.Reason != w.Reason || c.Message != w.Message {
			return false
		}
	}
	if ownsMoreConditions(svc, said.Report.Conditions) {
		return false
	}
	return said.Report.KeepRival || svc.Spec.Type != corev1.ServiceTypeLoadBalancer ||
		SameIngress(IngressOf(svc), said.Report.Ingress)
}

// SameIngress compares two published lists.
func SameIngress(a, b []status.Ingress) bool {
	return slices.EqualFunc(a, b, func(x, y status.Ingress) bool {
		return x.IP == y.IP && x.Hostname == y.Hostname && x.Proxy == y.Proxy && slices.Equal(x.Ports, y.Ports)
	})
}

// ownsMoreConditions tells whether a condition that we wrote is to go. Those
// of other managers are none of our business.
func ownsMoreConditions(svc *corev1.Service, want []status.Condition) bool {
	owned := ownFields(svc)
	for _, c := range svc.Status.Conditions {
		wanted := slices.ContainsFunc(want, func(w status.Condition) bool { return w.Type == c.Type })
		if !wanted && strings.Contains(owned, fmt.Sprintf(`k:{\"type\":\"%s\"}`, c.Type)) {
			return true
		}
	}
	return false
}

// ownFields returns what managedFields says that our applies own, as its JSON.
func ownFields(svc *corev1.Service) string {
	for _, m := range svc.ManagedFields {
		if m.Manager == FieldManager && m.Operation == metav1.ManagedFieldsOperationApply && m.FieldsV1 != nil {
			return m.FieldsV1.GetRawString()
		}
	}
	return ""
}

// RivalOf names the field manager other than us that wrote the ingress last,
// or nothing.
func RivalOf(svc *corev1.Service) string {
	rival, latest := "", time.Time{}
	for _, m := range svc.ManagedFields {
		if m.Manager == FieldManager || m.FieldsV1 == nil || !strings.Contains(m.FieldsV1.GetRawString(), `"f:loadBalancer"`) {
			continue
		}
		if at := m.Time; at != nil && !at.Time.Before(latest) {
			rival, latest = m.Manager, at.Time
		}
	}
	return rival
}
