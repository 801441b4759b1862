package server

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/controller-manager/pkg/clientbuilder"
	controllerhealthz "k8s.io/controller-manager/pkg/healthz"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
)

// controllerNames are the controllers of kube-controller-manager that give
// Services, namespaces and service accounts their life.
func controllerNames() []string {
	return []string{
		names.EndpointsController,
		names.EndpointSliceController,
		names.EndpointSliceMirroringController,
		names.GarbageCollectorController,
		names.NamespaceController,
		names.ServiceAccountController,
	}
}

func controllerFlags(kubeconfig string) []string {
	return []string{
		"--kubeconfig=" + kubeconfig,
		"--controllers=" + strings.Join(controllerNames(), ","),
		"--leader-elect=false",
		"--secure-port=0",
		// The limits that protect a production API server would only slow a
		// test with a thousand Services down.
		"--kube-api-qps=1000",
		"--kube-api-burst=2000",
	}
}

// runControllers runs controllerNames until ctx ends and calls running once,
// when they watch the cluster.
func runControllers(ctx context.Context, kubeconfig string, running func()) error {
	rest.SetDefaultWarningHandler(rest.NoWarnings{}) // the garbage collector watches deprecated kinds as well
	opts, err := options.NewKubeControllerManagerOptions()
	if err != nil {
		return fmt.Errorf("making options: %w", err)
	}
	known, off, aliases := app.KnownControllers(), app.ControllersDisabledByDefault(), app.ControllerAliases()
	set := pflag.NewFlagSet("kube-controller-manager", pflag.ContinueOnError)
	groups := opts.Flags(known, off, aliases)
	for _, group := range groups.FlagSets {
		set.AddFlagSet(group)
	}
	if err := set.Parse(controllerFlags(kubeconfig)); err != nil {
		return fmt.Errorf("parsing flags: %w", err)
	}
	cfg, err := opts.Config(ctx, known, off, aliases)
	if err != nil {
		return fmt.Errorf("completing options: %w", err)
	}
	completed := cfg.Complete()
	clients := clientbuilder.SimpleControllerClientBuilder{ClientConfig: completed.Kubeconfig}
	world, err := app.CreateControllerContext(ctx, completed, clients, clients)
	if err != nil {
		return fmt.Errorf("preparing: %w", err)
	}
	controllers, err := app.BuildControllers(ctx, world, app.NewControllerDescriptors(), nil, controllerhealthz.NewMutableHealthzHandler())
	if err != nil {
		return fmt.Errorf("building controllers: %w", err)
	}
	world.InformerFactory.Start(ctx.Done())
	world.ObjectOrMetadataInformerFactory.Start(ctx.Done())
	close(world.InformersStarted)
	defer world.InformerFactory.Shutdown()
	go func() {
		for _, synced := range world.InformerFactory.WaitForCacheSync(ctx.Done()) {
			if !synced {
				return // ctx ended first
			}
		}
		running()
	}()
	app.RunControllers(ctx, world, controllers, app.ControllerStartJitter, completed.ControllerShutdownTimeout)
	return nil
}
