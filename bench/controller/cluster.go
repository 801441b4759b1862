package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fairlead-lb/fairlead/internal/devcluster"
)

// bench is one measurement.
type bench struct {
	dir      string
	cluster  *devcluster.Cluster
	client   *kubernetes.Clientset
	services int
	workers  int
	rest     time.Duration
}

func connect(kubeconfig string) (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", kubeconfig, err)
	}
	config.QPS = -1
	return kubernetes.NewForConfig(config)
}

// createAll creates the Services in a namespace of their own, and returns how
// long that took.
func (b *bench) createAll(ctx context.Context, namespace string) (time.Duration, error) {
	fmt.Fprintf(os.Stderr, "bench: creating %d services in namespace %s\n", b.services, namespace)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := b.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return 0, fmt.Errorf("creating namespace %s: %w", namespace, err)
	}
	began := time.Now()
	next := make(chan int)
	failed := make([]error, b.workers)
	var g sync.WaitGroup
	for w := range b.workers {
		g.Go(func() {
			for i := range next {
				_, err := b.client.CoreV1().Services(namespace).Create(ctx, service(i), metav1.CreateOptions{})
				failed[w] = errors.Join(failed[w], err)
			}
		})
	}
	for i := range b.services {
		next <- i
	}
	close(next)
	g.Wait()
	return time.Since(began), errors.Join(failed...)
}

func service(i int) *corev1.Service {
	class := "fairlead.dev/local"
	nodePorts := false
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%04d", i)},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: &class,
			AllocateLoadBalancerNodePorts: &nodePorts,
			Ports:                         []corev1.ServicePort{{Port: 8080}},
		},
	}
}

func (b *bench) deleteAll(ctx context.Context, namespace string) error {
	if err := b.client.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}); err != nil {
		return fmt.Errorf("deleting namespace %s: %w", namespace, err)
	}
	return poll(ctx, "namespace "+namespace+" to go", func() (bool, error) {
		_, err := b.client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}

// untilProgrammed follows the Services by a watch until each says that it is
// programmed: polling lists would compete with what is measured.
func (b *bench) untilProgrammed(ctx context.Context, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	list, err := b.client.CoreV1().Services(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing services: %w", err)
	}
	open := map[string]bool{}
	for i := range list.Items {
		if !programmed(&list.Items[i]) {
			open[list.Items[i].Name] = true
		}
	}
	for len(open) > 0 {
		w, err := b.client.CoreV1().Services(namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		if err != nil {
			return fmt.Errorf("watching services: %w", err)
		}
		for e := range w.ResultChan() {
			if svc, ok := e.Object.(*corev1.Service); ok && programmed(svc) {
				delete(open, svc.Name)
			}
			if len(open) == 0 {
				w.Stop()
			}
		}
		if ctx.Err() != nil {
			return fmt.Errorf("waiting for %d services to be programmed: %w", len(open), ctx.Err())
		}
	}
	return nil
}

func programmed(svc *corev1.Service) bool {
	for _, c := range svc.Status.Conditions {
		if c.Type == "fairlead.dev/Programmed" {
			return c.Status == metav1.ConditionTrue
		}
	}
	return false
}

func poll(ctx context.Context, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
