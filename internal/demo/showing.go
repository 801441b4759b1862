//go:build linux

package demo

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

func (d *demo) showHello(ctx context.Context) error {
	at, err := d.serve(ctx, helloManifest, "hello")
	if err != nil {
		return err
	}
	text, err := d.run(ctx, "kubectl", "get", "service", "hello")
	if err != nil {
		return err
	}
	return expect(text, at.Addr().String(), "kubectl get service")
}

// showBalancing calls hello and expects answers of several backends.
func (d *demo) showBalancing(ctx context.Context) error {
	at, err := d.address(ctx, "hello")
	if err != nil {
		return err
	}
	if err := d.untilEndpoints(ctx, "hello"); err != nil {
		return err
	}
	answered := map[string]bool{}
	for range calls {
		v, err := d.showCall(ctx, at, netip.Addr{})
		if err != nil {
			return err
		}
		answered[v.backend] = true
	}
	if len(answered) < 2 {
		return fmt.Errorf("expected answers of at least 2 backends in %d calls, all came from one", calls)
	}
	return nil
}

// untilEndpoints waits until the EndpointSlice controller has found all pods.
func (d *demo) untilEndpoints(ctx context.Context, service string) error {
	args := []string{"get", "endpointslices", "-l", "kubernetes.io/service-name=" + service}
	err := until(ctx, 20*time.Second, "the endpoints of "+service, func() error {
		text, err := d.ask(ctx, append(args, "-o", "jsonpath={.items[*].endpoints[*].targetRef.name}")...)
		if err != nil {
			return err
		}
		for _, b := range d.machine.backends {
			if err := expect(text, b.name, "kubectl get endpointslices"); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	_, err = d.run(ctx, "kubectl", args...)
	return err
}

// showProxy calls both Services from one address, which only the pods behind
// the PROXY protocol may see.
func (d *demo) showProxy(ctx context.Context) error {
	with, err := d.serve(ctx, proxyManifest, "hello-proxy")
	if err != nil {
		return err
	}
	without, err := d.address(ctx, "hello")
	if err != nil {
		return err
	}
	d.say("\nA client at %s calls hello, which passes the bytes on and nothing else,\nand hello-proxy, which says first who is calling:", remoteClient())
	plain, err := d.showCall(ctx, without, remoteClient())
	if err != nil {
		return err
	}
	if plain.client == remoteClient() {
		return fmt.Errorf("expected that hello does not see the client's address, it saw %s", plain.client)
	}
	told, err := d.showCall(ctx, with, remoteClient())
	if err != nil {
		return err
	}
	if told.client != remoteClient() {
		return fmt.Errorf("expected that hello-proxy sees the client %s, it saw %s", remoteClient(), told.client)
	}
	return nil
}

// showMistake applies a Service with an option that cannot be understood. It
// has to be served, and to say what is wrong.
func (d *demo) showMistake(ctx context.Context) error {
	at, err := d.serve(ctx, mistakeManifest, "mistake")
	if err != nil {
		return err
	}
	text, err := d.run(ctx, "fairlead", "describe", "svc/mistake")
	if err != nil && !saidNo(err) {
		return err
	}
	if err := expect(text, mistakeSentence, "fairlead describe"); err != nil {
		return err
	}
	if err := d.showWarning(ctx); err != nil {
		return err
	}
	d.say("\nIt is served all the same:")
	if _, err = d.showCall(ctx, at, netip.Addr{}); err != nil {
		return err
	}
	d.say("\nThe remedy:")
	if _, err := d.run(ctx, "kubectl", "annotate", "service", "mistake", "--overwrite", "fairlead.dev/timeout-client-data=70000"); err != nil {
		return err
	}
	_, err = d.run(ctx, "fairlead", "wait", "svc/mistake", "--for=accepted")
	return err
}

// showWarning shows the event, which is written a moment after the condition.
func (d *demo) showWarning(ctx context.Context) error {
	events := []string{"events", "--for", "service/mistake", "--types=Warning"}
	err := until(ctx, 10*time.Second, "a warning", func() error {
		text, err := d.ask(ctx, events...)
		if err != nil {
			return err
		}
		return expect(text, "InvalidOptions", "kubectl events")
	})
	if err != nil {
		return err
	}
	_, err = d.run(ctx, "kubectl", events...)
	return err
}

// showReserved deletes a Service, whose address nobody else may get for a while.
func (d *demo) showReserved(ctx context.Context) error {
	at, err := d.address(ctx, "mistake")
	if err != nil {
		return err
	}
	if _, err := d.run(ctx, "kubectl", "delete", "-f", mistakeManifest, "--timeout=60s"); err != nil {
		return err
	}
	text, err := d.run(ctx, "fairlead", "addresses")
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, at.Addr().String()+" ") {
			return expect(line, "reserved", "fairlead addresses")
		}
	}
	return expect(text, at.Addr().String(), "fairlead addresses")
}
