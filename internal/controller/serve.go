package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairlead-lb/fairlead/api/annotation"
	"github.com/fairlead-lb/fairlead/internal/ipam"
	"github.com/fairlead-lb/fairlead/internal/kube"
	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/plan"
	"github.com/fairlead-lb/fairlead/internal/provider"
	"github.com/fairlead-lb/fairlead/internal/status"
	"github.com/fairlead-lb/fairlead/internal/translate"
)

// warnAgain is how often the one warning of a Service that is not as asked is
// renewed; API servers forget events after an hour (--event-ttl).
const warnAgain = 30 * time.Minute

// pass is one look at a Service that is to be served.
type pass struct {
	key      model.Key
	view     kube.View
	claim    translate.Claim
	provider provider.Provider
	asked    translate.Result
	// fingerprint is that of the Service as it was read.
	fingerprint string
	hold        bool
	verdict     assignment
	want        model.Balancer
	plan        plan.Plan
	observed    model.Observed
	// applied tells that the plan was carried out, and was not empty.
	applied bool
	errors  []model.PortError
	failure error
}

// serve reads, decides and writes for one Service that is ours and wanted.
func (c *Controller) serve(ctx context.Context, key model.Key, view kube.View, claim translate.Claim) (time.Duration, error) {
	p := &pass{key: key, view: view, claim: claim, provider: c.Providers[claim.Provider]}
	if err := c.act(ctx, p); err != nil {
		return 0, err
	}
	if err := c.report(ctx, p); err != nil {
		return 0, errors.Join(p.failure, err)
	}
	return c.nextLook(key), p.failure
}

// act decides and carries out. What fails in a backend becomes the pass's
// failure, which is reported; an error of the API ends the pass.
func (c *Controller) act(ctx context.Context, p *pass) error {
	c.translate(p)
	if err := c.dropFormerOwner(ctx, p); err != nil || p.failure != nil {
		return err
	}
	if !p.asked.Blocked {
		if err := c.secure(ctx, p); err != nil {
			return c.unsecured(p, err)
		}
	}
	c.program(ctx, p)
	return nil
}

// unsecured makes what the API refused to remember the pass's failure, so that
// the Service says why it is not served. A view that is out of date ends the
// pass instead: the next one is due already.
func (c *Controller) unsecured(p *pass, err error) error {
	if errors.Is(err, kube.ErrMovedOn) {
		return err
	}
	p.failure = err
	p.want.Addresses = c.addresses.holds(p.key)
	return nil
}

// translate reads what the Service asks for.
func (c *Controller) translate(p *pass) {
	p.asked = translate.Service(source(p))
	p.hold = c.Observe || p.asked.Paused
	p.fingerprint = translate.Fingerprint(p.view.Service)
}

func source(p *pass) translate.Source {
	traits := p.provider.Traits()
	src := translate.Source{
		Service: p.view.Service, Slices: p.view.Slices, Nodes: p.view.Nodes,
		Provider: annotation.Provider(traits.Name), Protocols: traits.Protocols,
		// A Service that carries our finalizer was accepted before, even when
		// its record is lost.
		New: !p.recorded() && !slices.Contains(p.view.Service.Finalizers, translate.Finalizer),
	}
	if p.recorded() {
		src.Accepted = acceptedOf(p.view.Record)
		src.Written = p.view.Record.Spec.Written
	}
	return src
}

// recorded tells whether the record is that of this very Service, and not one
// that an earlier Service of the same name left behind.
func (p *pass) recorded() bool {
	return p.view.Record != nil && p.view.Record.Spec.ServiceRef.UID == p.view.Service.UID
}

// failed tells whether the backend is known not to be as asked.
func (p *pass) failed() bool { return p.failure != nil }

// dropFormerOwner removes what an earlier Service of the same name, or another
// provider, left behind, before anything is made for this one.
func (c *Controller) dropFormerOwner(ctx context.Context, p *pass) error {
	record := p.view.Record
	if record == nil || p.hold || (p.recorded() && record.Spec.Provider == p.claim.Provider) {
		return nil
	}
	p.failure = c.removeFrom(ctx, record.Spec.Provider, p.key)
	if p.failed() {
		p.want.Addresses = c.addresses.holds(p.key)
		return nil
	}
	if record.Spec.Provider == p.claim.Provider {
		// The same name gets the same address: the holding passes on.
		return nil
	}
	if err := c.release(ctx, p.key); err != nil {
		return err
	}
	if err := c.Ledger.DeleteRecord(ctx, record); err != nil {
		return err
	}
	p.view.Record = nil
	c.translate(p)
	return nil
}

// secure makes the guard and the memory of the Service durable before anything
// is made in a backend: finalizers, then addresses, written down in the record.
func (c *Controller) secure(ctx context.Context, p *pass) error {
	if err := c.guard(ctx, p); err != nil {
		return err
	}
	p.want = p.asked.Balancer
	if p.provider.Traits().Addresses == provider.FromPools {
		p.verdict = c.decideAddresses(p)
		p.want.Addresses = p.verdict.Addresses
		p.want.Listeners = without(p.want.Listeners, p.verdict.RefusedPorts)
	}
	if p.hold {
		return nil
	}
	// An address that was given up is written down as reserved before the
	// record forgets it, and one that was taken up stays reserved until the
	// record has it: at no moment can a restart give it to somebody else.
	if err := c.writeReservations(ctx); err != nil {
		return err
	}
	if err := c.Ledger.PutRecord(ctx, p.view.Record, recordSpec(p)); err != nil {
		return err
	}
	if c.addresses.recorded(p.key) {
		c.enqueue(ctx, c.addresses.waiting())
	}
	return c.writeReservations(ctx)
}

// decideAddresses assigns addresses, or only says which ones it would while
// nothing may be written.
func (c *Controller) decideAddresses(p *pass) assignment {
	request := p.asked.Request
	request.Delay = c.ReleaseDelay
	if p.hold {
		return c.addresses.preview(request, c.Now())
	}
	return c.addresses.assign(request, c.Now())
}

func (c *Controller) guard(ctx context.Context, p *pass) error {
	have := p.view.Service.Finalizers
	if p.recorded() && p.view.Record.Spec.Class == "" && p.view.Service.Spec.LoadBalancerClass != nil {
		// It got a class meanwhile, and the shared finalizer was ours to set.
		have = slices.DeleteFunc(slices.Clone(have), func(f string) bool { return f == translate.SharedFinalizer })
	}
	want := withFinalizers(have, p.claim.Finalizers)
	if p.hold || slices.Equal(want, p.view.Service.Finalizers) {
		return nil
	}
	return c.Writer.SetFinalizers(ctx, p.view.Service, want)
}

// withFinalizers adds those that are missing and drops second copies.
func withFinalizers(have, want []string) []string {
	var out []string
	for _, f := range slices.Concat(have, want) {
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}

func without(listeners []model.Listener, refused []model.PortError) []model.Listener {
	return slices.DeleteFunc(slices.Clone(listeners), func(l model.Listener) bool {
		return slices.ContainsFunc(refused, func(e model.PortError) bool { return e.Port == l.Port })
	})
}

// program brings the backend to the plan.
func (c *Controller) program(ctx context.Context, p *pass) {
	p.errors = slices.Concat(p.asked.PortErrors, p.verdict.RefusedPorts)
	have, err := p.provider.Observe(ctx, p.key)
	if err != nil {
		p.failure = fmt.Errorf("observing balancer %s: %w", p.key, err)
		have.Balancer.Addresses = kube.AddressesOf(p.view.Service)
		p.adoptAddresses(have)
		return
	}
	p.observed = have
	if c.forgotten(p) {
		c.refill(ctx, p)
	}
	p.plan = planFor(p)
	if !p.hold && !p.plan.Empty() {
		c.apply(ctx, p)
	}
	p.errors = mergeErrors(p.errors, healthErrors(p.observed))
	p.adoptAddresses(p.observed)
}

// forgotten tells whether the backend of a paused Service ended with the last
// process. Filling it again is no change but the end of one.
func (c *Controller) forgotten(p *pass) bool {
	return p.asked.Paused && !c.Observe && p.recorded() && !p.observed.Exists && p.provider.Traits().Ephemeral
}

// refill serves a paused Service at the addresses that it holds, whatever
// others it asks for meanwhile.
func (c *Controller) refill(ctx context.Context, p *pass) {
	wanted := p.want.Addresses
	p.want.Addresses = c.addresses.holds(p.key)
	if p.plan = planFor(p); !p.plan.Empty() {
		c.apply(ctx, p)
	}
	p.want.Addresses = wanted
}

// apply carries the plan out and looks at what came of it.
func (c *Controller) apply(ctx context.Context, p *pass) {
	if p.announces() {
		c.Writer.Tell(p.view.Service, kube.Event{Reason: "EnsuringLoadBalancer", Message: "Ensuring load balancer"}, c.Now())
	}
	portErrors, err := p.provider.Apply(ctx, p.plan)
	if err != nil {
		p.failure = fmt.Errorf("applying the plan for balancer %s: %w", p.key, err)
		return
	}
	p.applied = true
	p.errors = mergeErrors(p.errors, portErrors)
	c.Log.InfoContext(ctx, "applied a plan", slog.String("service", p.key.String()), slog.String("step", p.plan.Summary()))
	seen, err := p.provider.Observe(ctx, p.key)
	if err != nil {
		p.failure = fmt.Errorf("observing balancer %s: %w", p.key, err)
		return
	}
	p.observed = seen
}

// adoptAddresses takes over the addresses that a backend chose.
func (p *pass) adoptAddresses(o model.Observed) {
	if p.provider.Traits().Addresses == provider.FromBackend && !p.asked.Blocked {
		p.want.Addresses = o.Balancer.Addresses
	}
}

// planFor compares what is wanted with what is there. Without an address, or
// when nothing may be served, there is nothing to want.
func planFor(p *pass) plan.Plan {
	noAddress := p.provider.Traits().Addresses == provider.FromPools && len(p.want.Addresses) == 0
	if p.asked.Blocked || noAddress {
		return plan.Remove(p.key, p.observed)
	}
	if p.asked.NoNodes {
		p.want = plan.KeepMembers(p.want, p.observed)
	}
	return plan.Diff(p.want, p.observed)
}

func healthErrors(o model.Observed) []model.PortError {
	var out []model.PortError
	for _, h := range o.Health {
		if h.Error.Reason != "" {
			out = append(out, h.Error)
		}
	}
	return out
}

// mergeErrors keeps the first error of each port, sorted by port.
func mergeErrors(lists ...[]model.PortError) []model.PortError {
	var out []model.PortError
	for _, e := range slices.Concat(lists...) {
		if !slices.ContainsFunc(out, func(x model.PortError) bool { return x.Port == e.Port }) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b model.PortError) int { return a.Port.Compare(b.Port) })
	return out
}

// announces tells whether this pass acts on a spec that was not acted on yet.
func (p *pass) announces() bool {
	return p.view.Service.Annotations[annotation.Observed.Key()] != p.fingerprint
}

// report writes what the Service shall say, and tells what happened.
func (c *Controller) report(ctx context.Context, p *pass) error {
	now, svc := c.Now(), p.view.Service
	m := c.recall(p.key)
	published := kube.IngressOf(svc)
	m.rivalry = m.rivalry.see(published, now)
	in := statusInput(p, published)
	in.Hold = holdNotice(c.Observe, p)
	if m.rivalry.active(now) {
		in.Rival = kube.RivalOf(svc)
	}
	report := status.Of(in)
	news := (p.applied && p.announces()) || notProgrammed(svc)
	said := kube.Said{Report: report, Annotations: map[string]string{annotation.Observed.Key(): p.fingerprint}}
	if _, err := c.Writer.ApplyStatus(ctx, svc.DeepCopy(), said, now); err != nil {
		return err
	}
	if !report.KeepRival {
		m.rivalry = m.rivalry.say(report.Ingress)
	}
	c.tell(p, &m, report, news)
	c.remember(p.key, m)
	c.addresses.wait(p.key, waits(p.verdict.Verdict), now)
	return nil
}

// waits tells whether an address that becomes free could change a verdict.
func waits(v ipam.Verdict) bool {
	return v.Reason != "" && (v.Reason != ipam.AddressAssigned || v.Partial || len(v.RefusedPorts) > 0)
}

// notProgrammed tells whether the Service says that it is not served as asked.
func notProgrammed(svc *corev1.Service) bool {
	cond := kube.FindCondition(svc, status.Programmed)
	return cond != nil && cond.Status == metav1.ConditionFalse
}

func statusInput(p *pass, published []status.Ingress) status.Input {
	in := status.Input{
		Want: p.want, Ports: p.asked.Ports, Hostname: p.asked.Hostname,
		ProxyMode: p.provider.Traits().ProxyMode, Problems: p.asked.Problems, Blocked: p.asked.Blocked,
		PortErrors: p.errors, Observed: p.observed, Published: published, Held: p.hold,
	}
	if r := p.verdict.Reason; r != "" && r != ipam.AddressAssigned {
		in.Address = status.Notice{Reason: string(r), Message: p.verdict.Message}
	}
	if p.failure == nil && !p.hold && p.provider.Traits().Addresses == provider.FromBackend && len(p.want.Addresses) == 0 {
		in.Address = status.Notice{Reason: status.ReasonNoAddress, Message: fmt.Sprintf("Provider %s has not given an address yet; the Service is looked at again as soon as it has.", p.claim.Provider)}
	}
	if p.asked.NoNodes {
		in.Note = "No node is eligible as a member; check the nodes, their labels and the option node-selector. The last ones keep their place."
	}
	if p.failure != nil {
		in.Failure = status.Notice{Reason: status.ReasonBackendError, Message: fmt.Sprintf("Provider %s: %v; it is tried again.", p.claim.Provider, p.failure)}
	}
	return in
}

// holdNotice says what would be done if it were not held.
func holdNotice(observe bool, p *pass) status.Notice {
	if !p.hold || p.plan.Empty() {
		return status.Notice{}
	}
	if observe {
		return status.Notice{Reason: status.ReasonObserving, Message: fmt.Sprintf("The controller only observes; it would apply: %s. Set mode to apply in its configuration.", p.plan.Summary())}
	}
	return status.Notice{Reason: status.ReasonPaused, Message: fmt.Sprintf("The Service is paused; it would be changed: %s. Remove the annotation %s.", p.plan.Summary(), annotation.Paused.Key())}
}

// tell sends the events of a pass: that a load balancer is in service when that
// is news, and the one warning while the Service is not as asked.
func (c *Controller) tell(p *pass, m *memory, report status.Report, news bool) {
	now := c.Now()
	ok := slices.ContainsFunc(report.Conditions, func(x status.Condition) bool { return x.Type == status.Programmed && x.True })
	if ok && news {
		c.Writer.Tell(p.view.Service, kube.Event{Reason: "EnsuredLoadBalancer", Message: "Ensured load balancer at " + model.JoinAddrs(p.want.Addresses)}, now)
	}
	text := report.Warning.Reason + ": " + report.Warning.Message
	switch {
	case !report.Warning.Set():
		m.warned, m.warnAt = "", time.Time{}
	case text != m.warned || now.Sub(m.warnAt) >= warnAgain:
		c.Writer.Tell(p.view.Service, kube.Event{Warning: true, Reason: report.Warning.Reason, Message: report.Warning.Message}, now)
		m.warned, m.warnAt = text, now
	}
}
