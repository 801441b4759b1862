package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fairlead-lb/fairlead/internal/ipam"
	"github.com/fairlead-lb/fairlead/internal/kube/kubetest"
	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/plan"
	"github.com/fairlead-lb/fairlead/internal/provider"
	inmemory "github.com/fairlead-lb/fairlead/internal/provider/memory"
	"github.com/fairlead-lb/fairlead/internal/translate"
)

// errKilled is what a controller panics with that is killed.
var errKilled = errors.New("killed")

// errInjected is what a write fails with that a test fails.
var errInjected = errors.New("injected")

// fuse kills after so many more writes; less than zero: never.
type fuse struct{ left int }

func (f *fuse) burn() {
	if f.left < 0 {
		return
	}
	if f.left--; f.left < 0 {
		panic(errKilled)
	}
}

// rig is a controller with a cluster and backends in memory, driven by hand.
type rig struct {
	t        *testing.T
	config   Config
	cluster  *kubetest.Cluster
	backends map[string]*inmemory.Backend
	// ephemeral backends are lost with the process, as the local provider's is.
	ephemeral  bool
	now        time.Time
	fuse       fuse
	changes    chan model.Key
	stop       context.CancelFunc
	controller *Controller
	// due are the keys that an event would have put into the queue.
	mu  sync.Mutex
	due map[model.Key]bool
	// after are the last answers of Reconcile.
	after map[model.Key]time.Duration
	// afterLook is called after each look, when set.
	afterLook func()
}

// lastFree is the pool of the rig: four addresses.
const lastFree = "203.0.113.4"

func newRig(t *testing.T, edit func(*Config)) *rig {
	t.Helper()
	r := &rig{
		t: t, now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), fuse: fuse{-1},
		due: map[model.Key]bool{}, after: map[model.Key]time.Duration{},
	}
	r.cluster = kubetest.New(func() time.Time { return r.now })
	r.hook(nil, nil)
	r.newBackends()
	r.config = Config{
		Log: slog.New(slog.DiscardHandler), Reader: r.cluster, Writer: r.cluster, Ledger: r.cluster,
		Default: "local", Pools: []ipam.Pool{testPool(t)}, ReleaseDelay: 10 * time.Minute, Resync: 10 * time.Minute,
		Now: func() time.Time { return r.now }, Standby: func() bool { return false },
	}
	if edit != nil {
		edit(&r.config)
	}
	r.start()
	return r
}

func testPool(t *testing.T) ipam.Pool {
	t.Helper()
	addresses, err := ipam.ParseRange("203.0.113.1-" + lastFree)
	if err != nil {
		t.Fatal(err)
	}
	return ipam.Pool{Name: "test", Ranges: []ipam.Range{addresses}, AutoAssign: true}
}

func (r *rig) newBackends() {
	r.backends = map[string]*inmemory.Backend{}
	for _, name := range []string{"local", "other", "cloud"} {
		traits := provider.Traits{Name: name, Addresses: provider.FromPools, Protocols: []model.Protocol{model.TCP, model.UDP}, Ephemeral: r.ephemeral}
		if name == "cloud" {
			traits.Addresses = provider.FromBackend
		}
		// The options are those of the local provider, whatever the name is.
		traits.Name = "local"
		r.backends[name] = inmemory.New(inmemory.Config{Traits: traits, Range: netip.MustParsePrefix("198.51.100.0/28")})
	}
}

// hook has the cluster's writes enqueue their key and burn the fuse, beside
// what a test wants done.
func (r *rig) hook(before, after func(kubetest.Write) error) {
	r.cluster.SetHooks(before, func(w kubetest.Write) error {
		r.fuse.burn()
		if key, ok := keyOfWrite(w); ok {
			r.enqueue(key)
		}
		if after != nil {
			return after(w)
		}
		return nil
	})
}

func keyOfWrite(w kubetest.Write) (model.Key, bool) {
	switch w.Kind {
	case kubetest.Finalizers, kubetest.Status:
		namespace, name, _ := strings.Cut(w.Name, "/")
		return model.Key{Namespace: namespace, Name: name}, true
	case kubetest.PutRecord, kubetest.DeleteRecord:
		namespace, name, _ := strings.Cut(w.Name, ".")
		return model.Key{Namespace: namespace, Name: name}, true
	default:
		return model.Key{}, false
	}
}

func (r *rig) enqueue(key model.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.due[key] = true
}

// burning is a provider whose every step burns the fuse.
type burning struct {
	provider.Provider
	fuse *fuse
}

// Apply carries out as many steps as the fuse allows.
func (b burning) Apply(ctx context.Context, p plan.Plan) ([]model.PortError, error) {
	if b.fuse.left >= 0 && b.fuse.left < len(p.Steps) {
		p.Steps = p.Steps[:b.fuse.left+1]
		if _, err := b.Provider.Apply(ctx, p); err != nil {
			return nil, err
		}
		b.fuse.left = -1
		panic(errKilled)
	}
	if b.fuse.left >= 0 {
		b.fuse.left -= len(p.Steps)
	}
	return b.Provider.Apply(ctx, p)
}

// start starts a controller afresh.
func (r *rig) start() {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	r.stop = cancel
	r.changes = make(chan model.Key, 1024)
	r.config.Changes = r.changes
	r.config.Providers = map[string]provider.Provider{}
	for name, b := range r.backends {
		r.config.Providers[name] = burning{b, &r.fuse}
	}
	r.controller = New(r.config)
	if err := r.controller.Start(ctx); err != nil {
		r.t.Fatalf("starting: %v", err)
	}
	// What informers and Start enqueue.
	for _, k := range r.allKeys() {
		r.enqueue(k)
	}
}

// restart ends the controller and starts another on what is durable.
func (r *rig) restart() {
	r.t.Helper()
	r.stop()
	if r.ephemeral {
		r.newBackends()
	}
	r.start()
}

func (r *rig) allKeys() []model.Key {
	keys := map[model.Key]bool{}
	for _, k := range r.cluster.Keys() {
		keys[k] = true
	}
	for _, b := range r.backends {
		held, err := b.List(r.t.Context())
		if err != nil {
			r.t.Fatal(err)
		}
		for _, k := range held {
			keys[k] = true
		}
	}
	return slices.SortedFunc(maps.Keys(keys), model.Key.Compare)
}

// look has one key looked at. It reports whether the controller was killed.
func (r *rig) look(key model.Key) (killed bool, err error) {
	defer func() {
		switch p := recover(); {
		case p == nil:
		case p == any(errKilled):
			killed = true
		default:
			panic(p)
		}
	}()
	after, err := r.controller.Reconcile(r.t.Context(), key)
	r.after[key] = after
	if r.afterLook != nil {
		r.afterLook()
	}
	return false, err
}

// next takes the first due key.
func (r *rig) next() (model.Key, bool) {
	for {
		select {
		case k := <-r.changes:
			r.enqueue(k)
			continue
		default:
		}
		break
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.due) == 0 {
		return model.Key{}, false
	}
	k := slices.SortedFunc(maps.Keys(r.due), model.Key.Compare)[0]
	delete(r.due, k)
	return k, true
}

// work looks at due keys, at most so many; a killed controller is restarted
// and a failed pass comes again. It reports whether nothing is due any more.
func (r *rig) work(most int) bool {
	r.t.Helper()
	for range most {
		k, ok := r.next()
		if !ok {
			return true
		}
		switch killed, err := r.look(k); {
		case killed:
			r.restart()
		case err != nil:
			r.enqueue(k)
		}
	}
	return false
}

// settle works until nothing is due.
func (r *rig) settle() {
	r.t.Helper()
	if !r.work(500) {
		r.t.Fatalf("it does not settle; the last writes: %v", lastOf(r.cluster.Writes(), 20))
	}
}

func lastOf[T any](list []T, n int) []T { return list[max(0, len(list)-n):] }

// pass lets time go by and has what is over ended.
func (r *rig) pass(d time.Duration) {
	r.now = r.now.Add(d)
	if killed := r.guarded(func() { r.controller.expire(r.t.Context()) }); killed {
		r.restart()
	}
	// What failed the first time is made up for.
	r.controller.expire(r.t.Context())
}

func (r *rig) guarded(f func()) (killed bool) {
	defer func() {
		switch p := recover(); {
		case p == nil:
		case p == any(errKilled):
			killed = true
		default:
			panic(p)
		}
	}()
	f()
	return false
}

func (r *rig) put(svc *corev1.Service) {
	r.t.Helper()
	if err := r.cluster.Put(svc); err != nil {
		r.t.Fatal(err)
	}
	r.enqueue(keyFor(svc.Name))
}

func (r *rig) delete(name string) {
	r.cluster.Delete(keyFor(name))
	r.enqueue(keyFor(name))
}

// text is the whole state: cluster and backends.
func (r *rig) text() string {
	var out strings.Builder
	out.WriteString(r.cluster.Text())
	for _, name := range slices.Sorted(maps.Keys(r.backends)) {
		if text := r.backends[name].Text(); text != "" {
			fmt.Fprintf(&out, "backend %s\n%s", name, text)
		}
	}
	return out.String()
}

// leaks says what is there without a Service that wants it. What belongs to a
// paused Service is left alone on purpose.
func (r *rig) leaks() []string {
	var out []string
	for _, k := range r.cluster.Keys() {
		v, err := r.cluster.View(r.t.Context(), k)
		if err != nil {
			r.t.Fatal(err)
		}
		served := translate.ClaimOf(v.Service, r.controller.scope(v)).Verdict == translate.Serve
		if served || (v.Service != nil && isPaused(v)) {
			continue
		}
		if v.Record != nil {
			out = append(out, "record of "+k.String())
		}
		if v.Service != nil && len(v.Service.Finalizers) > 0 {
			out = append(out, fmt.Sprintf("finalizers %v of %s", v.Service.Finalizers, k))
		}
		if v.Service != nil && (len(v.Service.Status.Conditions) > 0 || len(v.Service.Status.LoadBalancer.Ingress) > 0) {
			out = append(out, "status of "+k.String())
		}
	}
	return append(append(out, r.leakedBalancers()...), r.leakedReservations()...)
}

func (r *rig) leakedBalancers() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(r.backends)) {
		held, err := r.backends[name].List(r.t.Context())
		if err != nil {
			r.t.Fatal(err)
		}
		for _, k := range held {
			v, err := r.cluster.View(r.t.Context(), k)
			if err != nil {
				r.t.Fatal(err)
			}
			claim := translate.ClaimOf(v.Service, r.controller.scope(v))
			if v.Service != nil && isPaused(v) {
				continue
			}
			if claim.Verdict != translate.Serve || claim.Provider != name {
				out = append(out, fmt.Sprintf("balancer %s in backend %s", k, name))
			}
		}
	}
	return out
}

// leakedReservations are those written down that the table does not know, or
// the other way round.
func (r *rig) leakedReservations() []string {
	list, err := r.cluster.Reservations(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	var out []string
	written := map[netip.Addr]bool{}
	for _, w := range reservationsOf(list) {
		written[w.Address] = true
		if !slices.ContainsFunc(r.controller.addresses.table.Reserved(w.Address), func(x ipam.Reservation) bool { return x.For == w.For && x.Until.Equal(w.Until) }) {
			out = append(out, fmt.Sprintf("written reservation of %s for %s", w.Address, w.For))
		}
		if !w.Until.After(r.now) {
			out = append(out, fmt.Sprintf("reservation of %s that is over", w.Address))
		}
	}
	for _, x := range r.controller.addresses.table.Reservations() {
		if !written[x.Address] {
			out = append(out, fmt.Sprintf("unwritten reservation of %s for %s", x.Address, x.For))
		}
	}
	return out
}

func keyFor(name string) model.Key { return model.Key{Namespace: "default", Name: name} }

// lb returns a load balancer Service of the class of provider local, with one
// TCP port unless ports are given.
func lb(name string, edits ...func(*corev1.Service)) *corev1.Service {
	class := translate.ClassPrefix + "local"
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: &class,
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports:      []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}},
		},
	}
	for _, e := range edits {
		e(svc)
	}
	return svc
}

func annotated(name, value string) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		annotations := maps.Clone(svc.Annotations)
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations["fairlead.dev/"+name] = value
		svc.Annotations = annotations
	}
}

// classed sets the class; an empty name takes it away.
func classed(class string) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		svc.Spec.LoadBalancerClass = &class
		if class == "" {
			svc.Spec.LoadBalancerClass = nil
		}
	}
}

func clusterIP(svc *corev1.Service) {
	svc.Spec.Type, svc.Spec.LoadBalancerClass = corev1.ServiceTypeClusterIP, nil
}

func ports(numbers ...int32) func(*corev1.Service) {
	return func(svc *corev1.Service) {
		svc.Spec.Ports = nil
		for _, n := range numbers {
			svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("p%d", n), Protocol: corev1.ProtocolTCP, Port: n, NodePort: 30000 + n})
		}
	}
}

// pods returns one slice with ready endpoints for port "http" and those of ports.
func pods(service string, addresses ...string) discoveryv1.EndpointSlice {
	s := discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: service + "-1"},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for _, name := range []string{"http", "p80", "p443"} {
		number := int32(8080)
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &name, Port: &number})
	}
	for _, a := range addresses {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
	}
	return s
}
