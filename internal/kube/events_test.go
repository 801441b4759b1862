package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// told returns the events that stand in the cluster after all queued ones are written.
func told(t *testing.T, c *Client) []corev1.Event {
	t.Helper()
	c.events.flush(t.Context())
	var list corev1.EventList
	if err := c.client.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func TestEventNames(t *testing.T) {
	warning := func(reason string) string {
		return eventOf(balanced(), Event{Warning: true, Reason: reason}, noon()).Name
	}
	normal := func(svc *corev1.Service, reason string) string {
		return eventOf(svc, Event{Reason: reason}, noon()).Name
	}
	another := balanced(func(s *corev1.Service) { s.UID = "uid-2" })
	if warning("A") != warning("B") {
		t.Error("two warnings of a Service have two names; a Service has one warning")
	}
	if normal(balanced(), "A") == normal(balanced(), "B") || normal(balanced(), "A") == warning("A") {
		t.Error("two reasons have one name")
	}
	if normal(balanced(), "A") == normal(another, "A") {
		t.Error("another Service of the same name shares an event")
	}
	if name := normal(balanced(), "A"); !strings.HasPrefix(name, "web.") || len(name) != len("web.")+16 {
		t.Errorf("name %q, want web.<16 digits>", name)
	}
}

// TestEventsAreRenewed: telling again renews, also after a restart and after
// the API server has forgotten the event.
func TestEventsAreRenewed(t *testing.T) {
	c := clientOf(t, interceptor.Funcs{})
	tell := func(message string, at time.Time) corev1.Event {
		t.Helper()
		c.Tell(balanced(), Event{Warning: true, Reason: "Bad", Message: message}, at)
		list := told(t, c)
		if len(list) != 1 {
			t.Fatalf("%d events, want one", len(list))
		}
		return list[0]
	}
	first := tell("one", noon())
	if first.Count != 1 || first.Type != "Warning" || first.Message != "one" || first.InvolvedObject.UID != "uid-1" {
		t.Errorf("first %+v", first)
	}
	second := tell("two", noon().Add(time.Minute))
	if second.Count != 2 || second.Message != "two" || !second.FirstTimestamp.Time.Equal(noon()) || !second.LastTimestamp.Time.Equal(noon().Add(time.Minute)) {
		t.Errorf("renewed %+v", second)
	}
	c.events = newEvents(c.client, c.options.Log)
	if again := tell("three", noon()); again.Count < 2 || again.Message != "three" || again.Name != first.Name {
		t.Errorf("renewed after a restart %+v", again)
	}
	if err := c.client.Delete(t.Context(), &second); err != nil {
		t.Fatal(err)
	}
	if anew := tell("four", noon()); anew.Message != "four" {
		t.Errorf("told after it was forgotten %+v", anew)
	}
	if next := tell("five", noon()); next.Count != 2 {
		t.Errorf("counted anew: %d, want 2", next.Count)
	}
}

// TestEventMessagesFit: what is too long is cut between characters.
func TestEventMessagesFit(t *testing.T) {
	for _, n := range []int{1023, 1024, 1025, 1026, 5000} {
		text := strings.Repeat("ü", n/2) + strings.Repeat("x", n%2)
		got := eventOf(balanced(), Event{Message: text}, noon()).Message
		if len(got) > 1024 || !utf8.ValidString(got) || (n <= 1024) != (got == text) {
			t.Errorf("a message of %d bytes becomes one of %d: valid %v", n, len(got), utf8.ValidString(got))
		}
	}
}

// TestFullBacklogDrops: telling never blocks.
func TestFullBacklogDrops(t *testing.T) {
	c := clientOf(t, interceptor.Funcs{})
	for i := range eventBacklog + 10 {
		c.Tell(balanced(), Event{Reason: fmt.Sprint(i)}, noon())
	}
	if n := len(c.events.queue); n != eventBacklog {
		t.Errorf("%d events wait, want %d", n, eventBacklog)
	}
}

// TestToldIsBounded: what is known of events does not grow for ever.
func TestToldIsBounded(t *testing.T) {
	e := newEvents(nil, slog.New(slog.DiscardHandler))
	for i := range toldLimit + 5 {
		e.count(eventOf(balanced(), Event{Reason: fmt.Sprint(i)}, noon()))
	}
	if n := len(e.told); n > toldLimit {
		t.Errorf("%d names are known, want at most %d", n, toldLimit)
	}
}

// TestEventsEnd: when its context ends, run writes what is queued and returns.
func TestEventsEnd(t *testing.T) {
	c := clientOf(t, interceptor.Funcs{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c.Tell(balanced(), Event{Reason: "Last"}, noon())
	c.events.run(ctx)
	if list := told(t, c); len(list) != 1 || list[0].Reason != "Last" {
		t.Errorf("events %+v, want the last one", list)
	}
}

// TestEventFailuresAreLogged: an event that cannot be written is logged, and
// the next one is tried.
func TestEventFailuresAreLogged(t *testing.T) {
	var log strings.Builder
	fails := 1
	c := clientOf(t, interceptor.Funcs{Create: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if fails--; fails >= 0 {
			return errors.New("no")
		}
		return w.Create(ctx, o, opts...)
	}})
	c.events.log = slog.New(slog.NewTextHandler(&log, nil))
	c.Tell(balanced(), Event{Reason: "A"}, noon())
	c.Tell(balanced(), Event{Reason: "A"}, noon())
	if list := told(t, c); len(list) != 1 {
		t.Errorf("%d events, want the second one", len(list))
	}
	if !strings.Contains(log.String(), "writing an event") || !strings.Contains(log.String(), "shop/web") {
		t.Errorf("log %q, want the failure with the Service", log.String())
	}
}
