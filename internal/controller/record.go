package controller

import (
	"net/netip"
	"slices"

	"github.com/fairlead-lb/fairlead/api/annotation"
	"github.com/fairlead-lb/fairlead/api/v1alpha1"
	"github.com/fairlead-lb/fairlead/internal/ipam"
	"github.com/fairlead-lb/fairlead/internal/kube"
	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/translate"
)

// recordSpec is what has to be remembered of a pass.
func recordSpec(p *pass) v1alpha1.ServiceRecordSpec {
	svc, held := p.view.Service, p.verdict.holding
	spec := v1alpha1.ServiceRecordSpec{
		ServiceRef: v1alpha1.ServiceRef{Namespace: svc.Namespace, Name: svc.Name, UID: svc.UID},
		Provider:   p.claim.Provider,
		Share:      v1alpha1.Share{Key: held.Share.Key, Namespace: held.Share.Namespace, Backend: held.Share.Backend},
	}
	if svc.Spec.LoadBalancerClass != nil {
		spec.Class = *svc.Spec.LoadBalancerClass
	}
	for i, a := range p.verdict.Addresses {
		spec.Addresses = append(spec.Addresses, a.String())
		if i < len(p.verdict.Pools) && spec.Pool == "" {
			spec.Pool = p.verdict.Pools[i]
		}
	}
	for _, port := range held.Ports {
		spec.Ports = append(spec.Ports, v1alpha1.Port{Protocol: string(port.Protocol), Port: int32(port.Number)})
	}
	if len(p.asked.Options.Accepted) > 0 {
		spec.AcceptedOptions = make(map[string]string, len(p.asked.Options.Accepted))
		for name, text := range p.asked.Options.Accepted {
			spec.AcceptedOptions[string(name)] = text
		}
	}
	if p.recorded() {
		spec.Written, spec.Backend = p.view.Record.Spec.Written, p.view.Record.Spec.Backend
	}
	return spec
}

func acceptedOf(r *v1alpha1.ServiceRecord) map[annotation.Name]string {
	out := make(map[annotation.Name]string, len(r.Spec.AcceptedOptions))
	for name, text := range r.Spec.AcceptedOptions {
		out[annotation.Name(name)] = text
	}
	return out
}

// holdings are the addresses in use according to the records and, where a
// record is lost, according to the statuses of Services with our finalizer.
func holdings(records []v1alpha1.ServiceRecord, views []kube.View) []ipam.Holding {
	services := make(map[model.Key]kube.View, len(views))
	for _, v := range views {
		services[kube.KeyOf(v.Service)] = v
	}
	recorded := map[model.Key]bool{}
	var out []ipam.Holding
	for i := range records {
		h := holdingOfRecord(&records[i])
		if v, ok := services[h.Owner]; ok {
			h.Created = v.Service.CreationTimestamp.Time
		}
		recorded[h.Owner] = true
		out = append(out, h)
	}
	for _, v := range views {
		if !recorded[kube.KeyOf(v.Service)] && slices.Contains(v.Service.Finalizers, translate.Finalizer) {
			out = append(out, holdingOfStatus(v))
		}
	}
	return slices.DeleteFunc(out, func(h ipam.Holding) bool { return len(h.Addresses) == 0 })
}

func holdingOfRecord(r *v1alpha1.ServiceRecord) ipam.Holding {
	h := ipam.Holding{
		Owner:   model.Key{Namespace: r.Spec.ServiceRef.Namespace, Name: r.Spec.ServiceRef.Name},
		Created: r.CreationTimestamp.Time,
		Share:   ipam.Share{Key: r.Spec.Share.Key, Namespace: r.Spec.Share.Namespace, Backend: r.Spec.Share.Backend},
	}
	for _, text := range r.Spec.Addresses {
		if a, err := netip.ParseAddr(text); err == nil {
			h.Addresses = append(h.Addresses, a.Unmap())
		}
	}
	for _, p := range r.Spec.Ports {
		h.Ports = append(h.Ports, model.Port{Protocol: model.Protocol(p.Protocol), Number: uint16(p.Port)})
	}
	return h
}

func holdingOfStatus(v kube.View) ipam.Holding {
	asked := translate.Service(translate.Source{Service: v.Service})
	h := ipam.Holding{
		Owner: kube.KeyOf(v.Service), Created: v.Service.CreationTimestamp.Time,
		Ports: asked.Request.Ports, Share: asked.Request.Share,
	}
	for _, i := range kube.IngressOf(v.Service) {
		if i.IP.IsValid() {
			h.Addresses = append(h.Addresses, i.IP)
		}
	}
	return h
}

func reservationSpec(r ipam.Reservation) v1alpha1.AddressReservationSpec {
	return v1alpha1.AddressReservationSpec{
		Address: r.Address.String(),
		For:     v1alpha1.ReservedFor{Namespace: r.For.Namespace, Name: r.For.Name},
		Since:   kube.Now(r.Since),
		Until:   kube.Now(r.Until),
		Reason:  "Released",
	}
}

func reservationsOf(in []v1alpha1.AddressReservation) []ipam.Reservation {
	var out []ipam.Reservation
	for _, r := range in {
		a, err := netip.ParseAddr(r.Spec.Address)
		if err != nil {
			continue
		}
		out = append(out, ipam.Reservation{
			Address: a.Unmap(),
			For:     model.Key{Namespace: r.Spec.For.Namespace, Name: r.Spec.For.Name},
			Since:   r.Spec.Since.Time, Until: r.Spec.Until.Time,
		})
	}
	return out
}
