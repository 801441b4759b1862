package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairlead-lb/fairlead/api/annotation"
	"github.com/fairlead-lb/fairlead/internal/kube"
	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/status"
	"github.com/fairlead-lb/fairlead/internal/translate"
)

const endpointsName = "endpoints"

// hop is one stage of a Service's way from manifest to traffic.
type hop struct {
	name  string
	wrong bool
	// unknown: it could not be judged.
	unknown bool
	// says is one line, details are further ones.
	says    string
	details []string
	// cause and remedy are sentences, set when the hop is wrong.
	cause  string
	remedy string
}

// hopsOf judges a Service hop by hop. The way ends where the Service is none
// of Fairlead's.
func hopsOf(f facts) []hop {
	first := claimHop(f)
	if first.wrong {
		return []hop{first}
	}
	asked := translated(f)
	return []hop{
		first, acceptedHop(f, asked), addressHop(f, asked), portsHop(f, asked), endpointsHop(f), programmedHop(f, asked),
	}
}

// blamed returns the hop that gives the cause, or nil: the first that is wrong.
// Missing endpoints are blamed last: a port is served without them, so whatever
// else is wrong is not their doing.
func blamed(hops []hop) *hop {
	var last *hop
	for i := range hops {
		switch h := &hops[i]; {
		case h.wrong && h.name != endpointsName:
			return h
		case h.wrong:
			last = h
		}
	}
	return last
}

// translated reads the manifest as the controller does, as far as the user may
// see what the controller sees.
func translated(f facts) translate.Result { return translate.Service(sourceOf(f)) }

func sourceOf(f facts) translate.Source {
	name := annotation.Provider(providerOf(f.svc, f.record))
	src := translate.Source{
		Service: f.svc, Slices: f.slices, Nodes: f.nodes,
		Provider: name, Protocols: protocolsOf(name),
		New: f.record == nil && !slices.Contains(f.svc.Finalizers, translate.Finalizer),
	}
	if f.record != nil {
		src.Written = f.record.Spec.Written
		src.Accepted = acceptedOf(f.record.Spec.AcceptedOptions)
	}
	return src
}

func acceptedOf(options map[string]string) map[annotation.Name]string {
	out := make(map[annotation.Name]string, len(options))
	for name, text := range options {
		out[annotation.Name(name)] = text
	}
	return out
}

// protocolsOf are the transport protocols a provider serves. An unknown
// provider is not held to any.
func protocolsOf(p annotation.Provider) []model.Protocol {
	if p == annotation.Local {
		return []model.Protocol{model.TCP, model.UDP}
	}
	return []model.Protocol{model.TCP, model.UDP, model.SCTP}
}

func claimHop(f facts) hop {
	svc, class := f.svc, classOf(f.svc)
	h := hop{name: "ours", says: claimText(svc)}
	switch {
	case svc.Spec.Type != corev1.ServiceTypeLoadBalancer:
		h.fail(otherType(svc), "Set spec.type to LoadBalancer.")
	case unknownClass(svc):
		h.fail("Fairlead has no provider of class "+class+".",
			"Create it again with "+knownClasses()+" (the class of a Service cannot be changed).")
	case class != "" && !strings.HasPrefix(class, translate.ClassPrefix):
		h.fail("The Service's class "+class+" is another controller's.",
			"Create it again with spec.loadBalancerClass "+translate.ClassPrefix+string(annotation.Local)+" (the class of a Service cannot be changed).")
	case !ours(svc):
		h.fail("The Service names no class, and no controller of Fairlead's has taken it.",
			"Create it again with spec.loadBalancerClass "+translate.ClassPrefix+string(annotation.Local)+", or set defaultProvider in Fairlead's configuration.")
	}
	return h
}

func (h *hop) fail(cause, remedy string) { h.wrong, h.cause, h.remedy = true, cause, remedy }

func claimText(svc *corev1.Service) string {
	text := "no class"
	if class := classOf(svc); class != "" {
		text = "class " + class
	}
	if slices.Contains(svc.Finalizers, translate.Finalizer) {
		return text + ", finalizer " + translate.Finalizer
	}
	return text + ", without Fairlead's finalizer"
}

// acceptedHop trusts the condition when it is about the present spec, and else
// reads the manifest itself.
func acceptedHop(f facts, asked translate.Result) hop {
	here := status.Of(status.Input{Problems: asked.Problems, Blocked: asked.Blocked}).Conditions[0]
	ok, says := here.True, here.Message
	c := kube.FindCondition(f.svc, status.Accepted)
	if c != nil && upToDate(f.svc) {
		ok, says = c.Status == metav1.ConditionTrue, c.Message
	}
	h := hop{name: "accepted"}
	for _, name := range slices.Sorted(maps.Keys(asked.Options.Accepted)) {
		h.details = append(h.details, fmt.Sprintf("%s = %s", name, asked.Options.Accepted[name]))
	}
	for _, p := range asked.Problems {
		h.details = append(h.details, problemMark(refuses(p))+" "+p.Message)
	}
	if h.says = says; len(asked.Problems) > 0 {
		h.says = problemsText(asked.Problems)
	}
	if ok {
		return h
	}
	cause, remedy := advice(says)
	for _, p := range asked.Problems {
		if refuses(p) {
			cause, remedy = p.Message, problemRemedy(f.svc, p)
			break
		}
	}
	h.fail(cause, remedy)
	return h
}

// problemsText counts what is refused, and what is only to be known.
func problemsText(problems []annotation.Problem) string {
	refused := 0
	for _, p := range problems {
		if refuses(p) {
			refused++
		}
	}
	notes := len(problems) - refused
	switch {
	case refused == 0:
		return count(notes, "note") + " about its options"
	case notes == 0:
		return count(refused, "problem") + " with its options"
	}
	return count(refused, "problem") + " with its options, and " + count(notes, "note")
}

// problemMark marks what is refused apart from what is only to be known.
func problemMark(refused bool) string {
	if refused {
		return "✗"
	}
	return "!"
}

// refuses tells whether a problem makes Accepted false.
func refuses(p annotation.Problem) bool {
	return !status.Of(status.Input{Problems: []annotation.Problem{p}}).Conditions[0].True
}

// problemRemedy is the command that mends an annotation.
func problemRemedy(svc *corev1.Service, p annotation.Problem) string {
	on := fmt.Sprintf("kubectl -n %s annotate svc %s", svc.Namespace, svc.Name)
	switch {
	case strings.HasPrefix(p.Key, "spec."):
		return fmt.Sprintf("Change %s to what is allowed: %s.", p.Key, p.Allowed)
	case p.Kind == annotation.Unknown && p.Suggestion != "":
		return fmt.Sprintf("Rename it: %s %s- %s=%q", on, p.Key, p.Suggestion, p.Value)
	case p.Kind == annotation.Unknown || p.Kind == annotation.NotYet:
		return fmt.Sprintf("Remove it: %s %s-", on, p.Key)
	case p.Suggestion != "":
		return fmt.Sprintf("Correct it: %s --overwrite %s=%q", on, p.Key, p.Suggestion)
	}
	return fmt.Sprintf("Set it to what is allowed (%s), or remove it: %s %s-", p.Allowed, on, p.Key)
}

func addressHop(f facts, asked translate.Result) hop {
	h := hop{name: "address", says: strings.Join(published(f.svc), ", ")}
	if wanted := asked.Request.Addresses; len(wanted) > 0 {
		h.details = append(h.details, "asked for: "+model.JoinAddrs(wanted))
	}
	if f.record != nil && f.record.Spec.Pool != "" {
		if given := f.record.Spec.Addresses; containsAll(published(f.svc), given) {
			h.says += " from pool " + f.record.Spec.Pool
		} else {
			h.details = append(h.details, "given to it: "+strings.Join(given, ", ")+" from pool "+f.record.Spec.Pool)
		}
	}
	c := kube.FindCondition(f.svc, status.Programmed)
	switch {
	case len(published(f.svc)) == 0:
		h.says = "none yet"
		cause, remedy := whyPending(f, c)
		h.fail(cause, remedy)
	case c != nil && c.Reason == status.ReasonAddressNotice && upToDate(f.svc):
		cause, remedy := advice(c.Message)
		h.fail(cause, remedy)
	}
	return h
}

func containsAll(list, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(s string) bool { return !slices.Contains(list, s) })
}

// whyPending says why a Service has no address.
func whyPending(f facts, c *metav1.Condition) (cause, remedy string) {
	switch {
	case c == nil:
		return advice(notSeen(f.svc))
	case !upToDate(f.svc):
		return outdated(f)
	}
	return conditionAdvice(c)
}

func outdated(f facts) (cause, remedy string) {
	return "The controller has not acted on the present spec yet.",
		fmt.Sprintf("Wait for it: %s wait -n %s svc/%s. If that lasts, see whether the controller runs.", f.program, f.svc.Namespace, f.svc.Name)
}

// portsHop says which ports are served.
func portsHop(f facts, asked translate.Result) hop {
	h := hop{name: "ports"}
	failed := portErrors(f, asked)
	for _, p := range f.svc.Spec.Ports {
		port := portOf(p)
		line := port.String()
		if p.Name != "" {
			line += " (" + p.Name + ")"
		}
		reason, bad := failed[port]
		if bad {
			line += ": " + reason
		}
		if l, ok := asked.Balancer.Find(port); ok && !bad {
			line += settingsText(l)
		}
		h.details = append(h.details, markOf(bad)+" "+line)
	}
	h.says = fmt.Sprintf("%d of %d can be served", len(f.svc.Spec.Ports)-len(failed), len(f.svc.Spec.Ports))
	if len(failed) == 0 {
		return h
	}
	c := kube.FindCondition(f.svc, status.PortsError)
	switch {
	case c != nil && upToDate(f.svc):
		cause, remedy := advice(c.Message)
		h.fail(cause, remedy)
	case len(asked.PortErrors) > 0:
		cause, remedy := advice(asked.PortErrors[0].Port.String() + ": " + asked.PortErrors[0].Message)
		h.fail(cause, remedy)
	default:
		h.fail("The Service's status names ports with an error.", "See its events, or the controller's log.")
	}
	return h
}

func settingsText(l model.Listener) string {
	var s strings.Builder
	for _, x := range l.Settings() {
		if x.Value != "" {
			s.WriteString(" " + x.Name + "=" + x.Value)
		}
	}
	return s.String()
}

// portErrors are the errors of the status when it is about the present spec,
// else those that the manifest alone gives.
func portErrors(f facts, asked translate.Result) map[model.Port]string {
	failed := map[model.Port]string{}
	if !upToDate(f.svc) {
		for _, e := range asked.PortErrors {
			failed[e.Port] = e.Reason
		}
		return failed
	}
	for _, i := range f.svc.Status.LoadBalancer.Ingress {
		for _, p := range i.Ports {
			if p.Error != nil {
				failed[model.Port{Protocol: model.Protocol(p.Protocol), Number: uint16(p.Port)}] = strings.TrimPrefix(*p.Error, annotation.Prefix)
			}
		}
	}
	return failed
}

func programmedHop(f facts, asked translate.Result) hop {
	h := hop{name: "programmed"}
	c := kube.FindCondition(f.svc, status.Programmed)
	switch {
	case f.svc.DeletionTimestamp != nil && asked.Paused:
		h.says = "it is being deleted"
		h.fail("The Service is being deleted, but it is paused, so its load balancer stays and keeps it.",
			fmt.Sprintf("Let it go: kubectl -n %s annotate svc %s %s-", f.svc.Namespace, f.svc.Name, annotation.Paused.Key()))
	case f.svc.DeletionTimestamp != nil:
		h.says = "it is being deleted"
		h.fail("The Service is being deleted; it goes when its load balancer is gone.", "See its events for what holds it up.")
	case c == nil:
		h.says = "no controller has looked at it"
		cause, remedy := advice(notSeen(f.svc))
		h.fail(cause, remedy)
	case !upToDate(f.svc):
		h.says = "not for the present spec; of an older one: " + c.Message
		cause, remedy := outdated(f)
		h.fail(cause, remedy)
	case c.Status != metav1.ConditionTrue:
		h.says = c.Reason + ": " + c.Message
		cause, remedy := conditionAdvice(c)
		h.fail(cause, remedy)
	default:
		h.says = c.Message
	}
	if asked.Paused {
		h.details = append(h.details, "paused: changes are planned and reported, not made ("+annotation.Paused.Key()+")")
	}
	return h
}

// conditionAdvice parts a condition's message into cause and remedy.
func conditionAdvice(c *metav1.Condition) (cause, remedy string) {
	switch c.Reason {
	case status.ReasonPaused, status.ReasonObserving:
		if i := strings.LastIndex(strings.TrimSuffix(c.Message, "."), ". "); i > 0 {
			return c.Message[:i+1], c.Message[i+2:]
		}
	}
	return advice(c.Message)
}

// advice parts a sentence of the form "what is wrong; what to do.".
func advice(message string) (cause, remedy string) {
	message = strings.TrimSpace(message)
	cause, remedy, found := strings.Cut(message, "; ")
	if !found || remedy == "" {
		return message, "See its events, or the controller's log."
	}
	return capital(cause) + ".", capital(strings.TrimSuffix(remedy, ".")) + "."
}

func capital(s string) string {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

func (h hop) mark() string {
	if h.unknown {
		return "?"
	}
	return markOf(h.wrong)
}

func markOf(wrong bool) string {
	if wrong {
		return "✗"
	}
	return "✓"
}
