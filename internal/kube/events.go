package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"log/slog"
	"sync"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// eventBacklog bounds the events that wait to be written; beyond it they are
// dropped and logged: an event is a courtesy, never a state.
const eventBacklog = 4096

// toldLimit bounds how many events are known to exist. When it is reached all
// are forgotten; telling one again then takes a request more.
const toldLimit = 16384

// eventMessageLimit is the longest message that the API takes, in bytes
// (core/v1 validation).
const eventMessageLimit = 1024

// warningSlot is the slot of the one warning of a Service.
const warningSlot = "warning"

// Event is one thing to tell about a Service.
type Event struct {
	// Warning selects the type; Normal otherwise.
	Warning bool
	Reason  string
	Message string
}

// events writes events under names of our own making: a Service has one
// warning and one Normal event a reason, and telling them again renews them.
// client-go's recorder cannot do that: its names are random, so a restart
// multiplies what it should renew.
// Events are written past the client's read-your-writes guard, which would watch
// all events of the cluster to keep its promise.
type events struct {
	client client.Client
	log    *slog.Logger
	queue  chan *corev1.Event

	mu   sync.Mutex
	told map[types.NamespacedName]int32
}

func newEvents(c client.Client, log *slog.Logger) *events {
	return &events{client: c, log: log, queue: make(chan *corev1.Event, eventBacklog), told: map[types.NamespacedName]int32{}}
}

// Tell queues an event about a Service. It never blocks.
func (c *Client) Tell(svc *corev1.Service, e Event, now time.Time) {
	select {
	case c.events.queue <- eventOf(svc, e, now):
	default:
		c.options.Log.Warn("dropped an event", slog.String("service", KeyOf(svc).String()), slog.String("reason", e.Reason))
	}
}

func eventOf(svc *corev1.Service, e Event, now time.Time) *corev1.Event {
	slot, kind := e.Reason, corev1.EventTypeNormal
	if e.Warning {
		slot, kind = warningSlot, corev1.EventTypeWarning
	}
	at := metav1.NewTime(now)
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: svc.Namespace, Name: eventName(svc, slot)},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Service", Namespace: svc.Namespace, Name: svc.Name, UID: svc.UID,
		},
		Type: kind, Reason: e.Reason, Message: clip(e.Message), Count: 1, FirstTimestamp: at, LastTimestamp: at,
		Source:              corev1.EventSource{Component: FieldManager},
		ReportingController: "fairlead.dev/controller",
	}
}

// clip cuts a text at a rune boundary so that the API takes it.
func clip(s string) string {
	if len(s) <= eventMessageLimit {
		return s
	}
	cut := eventMessageLimit - len("…")
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

func eventName(svc *corev1.Service, slot string) string {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s/%s", svc.UID, slot)
	return fmt.Sprintf("%s.%016x", svc.Name, h.Sum64())
}

// run writes queued events until ctx ends, then those still queued, briefly.
func (e *events) run(ctx context.Context) {
	for {
		select {
		case event := <-e.queue:
			e.write(ctx, event)
		case <-ctx.Done():
			e.flush(context.WithoutCancel(ctx))
			return
		}
	}
}

func (e *events) flush(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for {
		select {
		case event := <-e.queue:
			e.write(ctx, event)
		default:
			return
		}
	}
}

func (e *events) write(ctx context.Context, event *corev1.Event) {
	count := e.count(event)
	var err error
	if count == 1 {
		err = e.client.Create(ctx, event, client.DisableReadYourWritesConsistency)
	}
	if count > 1 || apierrors.IsAlreadyExists(err) {
		err = e.renew(ctx, event, count)
	}
	if apierrors.IsNotFound(err) {
		e.forget(event)
		event.ResourceVersion = ""
		err = e.client.Create(ctx, event, client.DisableReadYourWritesConsistency)
	}
	// A namespace that is being deleted takes no events, and needs none.
	if err != nil && ctx.Err() == nil && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		e.log.WarnContext(ctx, "writing an event", slog.String("service", event.InvolvedObject.Namespace+"/"+event.InvolvedObject.Name), slog.Any("error", err))
	}
}

func (e *events) renew(ctx context.Context, event *corev1.Event, count int32) error {
	patch, err := json.Marshal(map[string]any{
		"type": event.Type, "reason": event.Reason, "message": event.Message,
		"lastTimestamp": event.LastTimestamp, "count": max(count, 2),
	})
	if err != nil {
		return fmt.Errorf("encoding event: %w", err)
	}
	return e.client.Patch(ctx, event.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.DisableReadYourWritesConsistency)
}

// count tells how often an event was told, this time included.
func (e *events) count(event *corev1.Event) int32 {
	e.mu.Lock()
	defer e.mu.Unlock()
	name := types.NamespacedName{Namespace: event.Namespace, Name: event.Name}
	if len(e.told) >= toldLimit {
		clear(e.told)
	}
	e.told[name]++
	return e.told[name]
}

func (e *events) forget(event *corev1.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.told[types.NamespacedName{Namespace: event.Namespace, Name: event.Name}] = 1
}
