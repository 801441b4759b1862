package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fairlead-lb/fairlead/internal/kube"
	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/status"
)

// The goals of wait.
const (
	goalProgrammed = "programmed"
	goalAccepted   = "accepted"
	goalAddress    = "address"
	goalDeleted    = "deleted"
)

func waitCommand(w world) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "wait svc/NAME",
		Short: "Wait until a Service is served as its present spec asks",
		Long: "Wait until a Service is programmed (every port served as asked), accepted, has an address, or is deleted.\n\n" +
			"It holds for the present spec: a condition that the controller wrote before the last change does not count. While\n" +
			"it waits, it says on the standard error what is missing, whenever that changes. When the time is over, the exit\n" +
			"code is 1.",
		Example: "  kubectl apply -f web.yaml && fairlead wait svc/web\n  fairlead wait svc/web --for=address --timeout=5m\n  kubectl delete --wait=false svc/web && fairlead wait svc/web --for=deleted",
		Args:    exactly(1),
	}
	o := clusterFlags(cmd)
	goal := &oneOf{words: []string{goalProgrammed, goalAccepted, goalAddress, goalDeleted}, value: goalProgrammed}
	cmd.Flags().Var(goal, "for", "what to wait for")
	timeout := cmd.Flags().Duration("timeout", time.Minute, "how long to wait")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if *timeout <= 0 {
			return usage("--timeout has to be longer than 0, such as 60s")
		}
		a, err := w.open(*o)
		if err != nil {
			return err
		}
		key, err := serviceKey(args[0], a.Namespace())
		if err != nil {
			return err
		}
		seen := &waiting{key: key, goal: goal.value, tell: w.Err}
		if err := seen.wait(cmd.Context(), a, *timeout); err != nil {
			return err
		}
		fmt.Fprintln(w.Out, seen.answer)
		return nil
	}
	return cmd
}

// waiting is one wait for one Service.
type waiting struct {
	key  model.Key
	goal string
	tell io.Writer

	uid    types.UID
	lacks  string
	answer string
	failed error
}

func (s *waiting) wait(ctx context.Context, a *access, timeout time.Duration) error {
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := a.Watch(bounded, s.key, s.see)
	switch {
	case err == nil:
		return s.failed
	case ctx.Err() != nil:
		return fmt.Errorf("waiting for service %s: %w", s.key, ctx.Err())
	case errors.Is(err, context.DeadlineExceeded) && bounded.Err() != nil && s.lacks != "":
		return &exitError{ExitFailed, fmt.Errorf("service/%s is not %s after %s: %s", s.key.Name, s.goalText(), timeout, s.lacks)}
	}
	return err
}

func (s *waiting) goalText() string {
	if s.goal == goalAddress {
		return "given an address"
	}
	return s.goal
}

// see looks at a state of the Service, and tells whether the wait is over.
func (s *waiting) see(svc *corev1.Service) bool {
	if s.goal == goalDeleted {
		return s.seeDeletion(svc)
	}
	if svc == nil {
		s.failed = fmt.Errorf("service %q is not in namespace %q", s.key.Name, s.key.Namespace)
		if s.uid != "" {
			s.failed = fmt.Errorf("service %q was deleted meanwhile", s.key.Name)
		}
		return true
	}
	s.uid = svc.UID
	answer, lacks := judge(svc, s.goal)
	if lacks == "" {
		s.answer = "service/" + s.key.Name + " " + answer
		return true
	}
	s.say(lacks)
	return false
}

func (s *waiting) seeDeletion(svc *corev1.Service) bool {
	if svc == nil || s.uid != "" && svc.UID != s.uid {
		s.answer = "service/" + s.key.Name + " is deleted"
		return true
	}
	s.uid = svc.UID
	switch {
	case svc.DeletionTimestamp == nil:
		s.say("It is not being deleted.")
	case len(svc.Finalizers) == 0:
		s.say("It is being deleted.")
	default:
		s.say("It is held by its finalizers " + strings.Join(svc.Finalizers, ", ") + ".")
	}
	return false
}

// say tells what is missing, when that has changed.
func (s *waiting) say(lacks string) {
	if s.lacks != lacks {
		fmt.Fprintf(s.tell, "waiting: %s\n", lacks)
	}
	s.lacks = lacks
}

// judge says how a Service has reached a goal, or what it lacks.
func judge(svc *corev1.Service, goal string) (answer, lacks string) {
	switch {
	case svc.DeletionTimestamp != nil:
		return "", "It is being deleted."
	case kube.FindCondition(svc, status.Programmed) == nil:
		return "", notSeen(svc)
	case !upToDate(svc):
		return "", "The controller has not acted on the present spec yet."
	}
	at := strings.Join(published(svc), ", ")
	switch goal {
	case goalAccepted:
		return "is accepted", missing(svc, status.Accepted)
	case goalAddress:
		if at != "" {
			return "has the address " + at, ""
		}
		if lacks = missing(svc, status.Programmed); lacks == "" {
			lacks = "It has no address."
		}
		return "", lacks
	}
	if at == "" {
		at = "no address"
	}
	return "is programmed at " + at, missing(svc, status.Programmed)
}

// missing is the message of a condition that is not true.
func missing(svc *corev1.Service, name string) string {
	c := kube.FindCondition(svc, name)
	if c == nil {
		return "It has no condition " + name + "."
	}
	if c.Status == metav1.ConditionTrue {
		return ""
	}
	if accepted := kube.FindCondition(svc, status.Accepted); c.Reason == status.ReasonNotAccepted && accepted != nil {
		c = accepted
	}
	return c.Reason + ": " + c.Message
}
