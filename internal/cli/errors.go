package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fairlead-lb/fairlead/internal/kube"
)

// exitError ends a command with a code of its own. Without a cause everything
// has been said already.
type exitError struct {
	code  int
	cause error
}

func (e *exitError) Error() string {
	if e.cause == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.cause.Error()
}

func (e *exitError) Unwrap() error { return e.cause }

// usage is an error of the command line.
func usage(format string, args ...any) error {
	return &exitError{ExitUsage, fmt.Errorf(format, args...)}
}

// said ends a command that has said all there is to say.
func said(code int) error { return &exitError{code: code} }

// sentence is an error in one line, with what to do about it.
func sentence(err error) string {
	// Some libraries put a heading above indented lines.
	text := strings.ReplaceAll(err.Error(), ":\n  ", ": ")
	text = strings.TrimRight(strings.ReplaceAll(strings.ReplaceAll(text, "\n  ", "\n"), "\n", "; "), ". ")
	if hint := remedyOf(err); hint != "" {
		return text + "; " + hint
	}
	return text
}

// remedyOf says what helps against an error of the API server or on the way to it.
func remedyOf(err error) string {
	var network *url.Error
	switch {
	case errors.Is(err, kube.ErrNoCluster):
		return "set KUBECONFIG or give --kubeconfig"
	case apierrors.IsForbidden(err):
		return "ask the cluster's administrator for this right, or use another --context"
	case apierrors.IsUnauthorized(err):
		return "log in again, or use another --context"
	case errors.Is(err, kube.ErrMovedOn):
		return "try again"
	case errors.Is(err, context.DeadlineExceeded):
		return "the API server did not answer in time: see whether it runs, or raise --request-timeout"
	case errors.As(err, &network):
		return "see whether the cluster runs, and whether --context names the right one"
	}
	return ""
}
