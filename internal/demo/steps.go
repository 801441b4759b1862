//go:build linux

package demo

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The manifests that are shown, in the checkout.
const (
	helloManifest   = "examples/hello/service.yaml"
	proxyManifest   = "examples/proxy-protocol/service.yaml"
	mistakeManifest = "examples/mistake/service.yaml"
)

const (
	// backendCount is how many servers play pods.
	backendCount = 3
	// calls is how many times hello is called.
	calls = 6
	// mistakeSentence is what the Service of mistakeManifest has to say.
	mistakeSentence = `✗ timeout-client-data: "70s" is not milliseconds; did you mean "70000"? Still serving with the default.`
)

// remoteClient is a client that cannot be taken for any other address here.
func remoteClient() netip.Addr { return netip.AddrFrom4([4]byte{127, 9, 9, 9}) }

// openingSteps show a plan, and then make what it takes to carry it out.
func (d *demo) openingSteps() []step {
	return []step{
		{"what would be done, without any cluster", d.showPlan},
		{"a Kubernetes API server, and Fairlead with the rights of its own manifests", d.startMachine},
		{"three servers play pods", d.playPods},
	}
}

// helloSteps bring an ordinary Service to life.
func (d *demo) helloSteps() []step {
	return []step{
		{"an ordinary Service", d.showHello},
		{"whoever calls it gets an answer, from one pod after the other", d.showBalancing},
	}
}

// furtherSteps show what sets Fairlead apart.
func (d *demo) furtherSteps() []step {
	return []step{
		{"the client's address, by PROXY protocol", d.showProxy},
		{"what becomes of a mistake", d.showMistake},
		{"a deleted Service's address stays reserved for it", d.showReserved},
	}
}

// expect fails unless text holds want.
func expect(text, want, where string) error {
	if strings.Contains(text, want) {
		return nil
	}
	return fmt.Errorf("expected in the output of %s:\n    %s\n  but it was:\n%s", where, want, indent(text))
}

func indent(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ")
}

func (d *demo) showPlan(ctx context.Context) error {
	text, err := d.run(ctx, "fairlead", "plan", "--offline", "-f", helloManifest)
	if err != nil {
		return err
	}
	return expect(text, "+ listener TCP/8080", "fairlead plan")
}

func (d *demo) startMachine(ctx context.Context) error {
	binary, err := d.build.wait()
	if err != nil {
		return err
	}
	if d.pool, err = claimPool(ctx); err != nil {
		return err
	}
	begun := time.Now()
	d.machine = &machine{folder: d.folder}
	if err := d.machine.startCluster(ctx, binary, d.root); err != nil {
		return err
	}
	d.say("The API server answers at %s.", d.machine.cluster.Server)
	if err := d.useCluster(binary); err != nil {
		return err
	}
	if err := d.machine.startController(ctx, filepath.Join(d.bin, "fairlead"), d.pool); err != nil {
		return err
	}
	d.say("Fairlead's controller is ready; it gives out addresses of %s.", d.pool.prefix)
	d.say("Its metrics are at http://%s/metrics. Both took %s to start.",
		d.machine.metrics, time.Since(begun).Round(100*time.Millisecond))
	return nil
}

// useCluster makes kubectl a program, and has all commands talk to the cluster.
func (d *demo) useCluster(binary string) error {
	script := fmt.Sprintf("#!/bin/sh\nexec %s kubectl \"$@\"\n", quoted(binary))
	if err := os.WriteFile(filepath.Join(d.bin, "kubectl"), []byte(script), 0o755); err != nil {
		return fmt.Errorf("writing a script for kubectl: %w", err)
	}
	// Of two values of one variable the last counts (os/exec, Cmd.Env).
	d.env = append(d.env, "KUBECONFIG="+d.machine.kubeconfig(),
		"KUBECACHEDIR="+filepath.Join(d.folder, "kubectl-cache"),
		"PATH="+d.bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return nil
}

// playPods starts the servers, and says of them what a scheduler and a kubelet
// would say of pods. Which endpoints a Service has is then found out by the
// EndpointSlice controller, as everywhere.
func (d *demo) playPods(ctx context.Context) error {
	for i := range backendCount {
		b, err := startBackend(ctx, "hello-"+strconv.Itoa(i+1), d.pods)
		if err != nil {
			return err
		}
		d.machine.backends = append(d.machine.backends, b)
	}
	manifest := filepath.Join(d.folder, "pods.yaml")
	if err := os.WriteFile(manifest, []byte(podManifest(d.machine.backends)), 0o600); err != nil {
		return fmt.Errorf("writing the pods' manifest: %w", err)
	}
	if _, err := d.ask(ctx, "apply", "-f", manifest); err != nil {
		return err
	}
	for _, b := range d.machine.backends {
		if _, err := d.ask(ctx, "patch", "pod", b.name, "--subresource=status", "--type=merge", "-p", podStatus(b)); err != nil {
			return err
		}
	}
	text, err := d.run(ctx, "kubectl", "get", "pods", "-l", "app=hello", "-o", "wide")
	if err != nil {
		return err
	}
	return expect(text, d.pods.String(), "kubectl get pods")
}

// address is where a Service's status says it is served, at the port of all
// examples.
func (d *demo) address(ctx context.Context, service string) (netip.AddrPort, error) {
	text, err := d.ask(ctx, "get", "service", service, "-o", "jsonpath={.status.loadBalancer.ingress[0].ip}")
	if err != nil {
		return netip.AddrPort{}, err
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("reading the address of service %s: %w", service, err)
	}
	if !d.pool.prefix.Contains(a) {
		return netip.AddrPort{}, fmt.Errorf("service %s has address %s, expected one of %s", service, a, d.pool.prefix)
	}
	return netip.AddrPortFrom(a, claimPort), nil
}

// serve applies a manifest and waits until its Service is served.
func (d *demo) serve(ctx context.Context, manifest, service string) (netip.AddrPort, error) {
	if _, err := d.run(ctx, "kubectl", "apply", "-f", manifest); err != nil {
		return netip.AddrPort{}, err
	}
	if _, err := d.run(ctx, "fairlead", "wait", "svc/"+service); err != nil {
		return netip.AddrPort{}, err
	}
	return d.address(ctx, service)
}
