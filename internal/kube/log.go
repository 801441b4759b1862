package kube

import (
	"context"
	"log/slog"
)

// libraryLog is the log as controller-runtime writes to it. On every graceful
// stop that calls the end of its own leadership an error, which would page
// people for nothing; that line is told at debug level.
type libraryLog struct{ slog.Handler }

// stopLine is the message of that line (pkg/manager/internal.go).
const stopLine = "error received after stop sequence was engaged"

// Handle implements slog.Handler.
func (l libraryLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Message != stopLine {
		return l.Handler.Handle(ctx, r)
	}
	if !l.Enabled(ctx, slog.LevelDebug) {
		return nil
	}
	r.Level = slog.LevelDebug
	return l.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (l libraryLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return libraryLog{l.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (l libraryLog) WithGroup(name string) slog.Handler {
	return libraryLog{l.Handler.WithGroup(name)}
}
