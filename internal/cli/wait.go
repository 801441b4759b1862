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

// waitOptions are the flags of wait.
type waitOptions struct {
	cluster      *kube.UserOptions
	which        *selection
	goal, output *oneOf
	timeout      time.Duration
}

func waitCommand(w world) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "wait (svc/NAME ... | --all | -l LABELS)",
		Short: "Wait until Services are served as their present specs ask",
		Long: "Wait until each Service is programmed (every port served as asked), accepted, has an address, or is deleted.\n\n" +
			"It holds for the present spec: a condition that the controller wrote before the last change does not count. While\n" +
			"it waits, it says on the standard error what is missing, whenever that changes. --timeout is for all of them\n" +
			"together; when it is over, the exit code is 1. What is selected by --all, -A or -l is read once, at the start.\n\n" +
			"-o json and yaml print a list of kind WaitList (" + listVersion + "). Each item has namespace, name, goal, reached (true\n" +
			"or false) and message. Fields are added to it, never renamed or removed.",
		Example: "  kubectl apply -f web.yaml && fairlead wait svc/web\n  fairlead wait svc/web --for=address --timeout=5m\n" +
			"  kubectl delete --wait=false svc/web && fairlead wait svc/web --for=deleted\n  fairlead wait --all -A -o json",
		Args: cobra.ArbitraryArgs,
	}
	o := waitOptions{cluster: clusterFlags(cmd), which: selectionFlags(cmd), output: outputFlag(cmd, "json", "yaml")}
	o.goal = &oneOf{words: []string{goalProgrammed, goalAccepted, goalAddress, goalDeleted}, value: goalProgrammed}
	cmd.Flags().Var(o.goal, "for", "what to wait for")
	cmd.Flags().DurationVar(&o.timeout, "timeout", time.Minute, "how long to wait")
	cmd.Flags().BoolVar(&o.which.all, "all", false, "every Service of Fairlead's in the namespace")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.timeout <= 0 {
			return usage("--timeout has to be longer than 0, such as 60s")
		}
		if len(args) == 0 && !o.which.given() {
			return usage("name Services, svc/NAME, or give --all, -A or -l")
		}
		return runWait(cmd.Context(), w, o, args)
	}
	return cmd
}

func runWait(ctx context.Context, w world, o waitOptions, names []string) error {
	if err := o.which.parse(names); err != nil {
		return err
	}
	a, err := w.open(*o.cluster)
	if err != nil {
		return err
	}
	waits, err := o.waits(ctx, a, names)
	if err != nil {
		return err
	}
	err = waitForAll(ctx, w, a, o, waits)
	if len(waits) == 0 {
		fmt.Fprintln(w.Err, o.which.none(a))
		if o.goal.value != goalDeleted { // a mistyped label is no success
			err = said(ExitFailed)
		}
	}
	if o.output.value == "" {
		return err
	}
	text, failed := encode(o.output.value, "WaitList", waitItems(waits))
	if failed != nil {
		return failed
	}
	fmt.Fprint(w.Out, text)
	return err
}

// waits are a wait for each Service that is meant. One that is named need not
// be there.
func (o waitOptions) waits(ctx context.Context, a *access, names []string) ([]*waiting, error) {
	var keys []model.Key
	for _, name := range names {
		key, err := serviceKey(name, a.Namespace())
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	if len(names) == 0 {
		found, err := o.which.services(ctx, a, nil, o.which.namespace(a))
		if err != nil {
			return nil, err
		}
		for i := range found {
			keys = append(keys, kube.KeyOf(&found[i]))
		}
	}
	waits := make([]*waiting, 0, len(keys))
	for _, key := range keys {
		waits = append(waits, &waiting{key: key, goal: o.goal.value, several: len(keys) > 1, everywhere: o.which.everywhere})
	}
	return waits, nil
}

// waitForAll waits for one Service after the other, all within one time-out,
// and goes on after one that fails. Its error is of all that failed.
func waitForAll(ctx context.Context, w world, a *access, o waitOptions, waits []*waiting) error {
	bounded, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	var failed []error
	for _, s := range waits {
		s.tell = w.Err
		if err := s.wait(ctx, bounded, a, o.timeout); err != nil {
			s.failed = err
			failed = append(failed, err)
		} else if o.output.value == "" {
			fmt.Fprintln(w.Out, s.answer)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(failed...)
}

// waitItem is one wait in a list: an item of WaitList.
type waitItem struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Goal      string `json:"goal"`
	Reached   bool   `json:"reached"`
	Message   string `json:"message"`
}

func waitItems(waits []*waiting) []waitItem {
	items := make([]waitItem, 0, len(waits))
	for _, s := range waits {
		i := waitItem{Namespace: s.key.Namespace, Name: s.key.Name, Goal: s.goal, Reached: s.answer != "" && s.failed == nil, Message: s.answer}
		if s.failed != nil {
			i.Message = s.failed.Error()
		}
		items = append(items, i)
	}
	return items
}

// waiting is one wait for one Service.
type waiting struct {
	key  model.Key
	goal string
	tell io.Writer
	// several: what is missing is said with the Service's name. everywhere:
	// the name is said with the namespace.
	several, everywhere bool

	uid    types.UID
	lacks  string
	answer string
	failed error
}

// wait waits until bounded, which ends timeout after the begin, is over. A
// Service whose turn comes after that is looked at once.
func (s *waiting) wait(ctx, bounded context.Context, a *access, timeout time.Duration) error {
	err := s.follow(ctx, bounded, a)
	switch {
	case err == nil:
		return s.failed
	case ctx.Err() != nil:
		return fmt.Errorf("waiting for service %s: %w", s.key, ctx.Err())
	case errors.Is(err, context.DeadlineExceeded) && bounded.Err() != nil && s.lacks != "":
		return &exitError{ExitFailed, fmt.Errorf("%s is not %s after %s: %s", s.name(), s.goalText(), timeout, s.lacks)}
	}
	return err
}

func (s *waiting) follow(ctx, bounded context.Context, a *access) error {
	if bounded.Err() == nil {
		return a.Watch(bounded, s.key, s.see)
	}
	svc, err := a.Service(ctx, s.key)
	if err != nil || s.see(svc) {
		return err
	}
	return bounded.Err()
}

// name is what the Service is called in what is said.
func (s *waiting) name() string {
	if s.everywhere {
		return "service/" + s.key.Name + " in " + s.key.Namespace
	}
	return "service/" + s.key.Name
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
		s.answer = s.name() + " " + answer
		return true
	}
	s.say(lacks)
	return false
}

func (s *waiting) seeDeletion(svc *corev1.Service) bool {
	if svc == nil || s.uid != "" && svc.UID != s.uid {
		s.answer = s.name() + " is deleted"
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
	switch {
	case s.lacks == lacks:
	case s.several:
		fmt.Fprintf(s.tell, "waiting for %s: %s\n", s.name(), lacks)
	default:
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
