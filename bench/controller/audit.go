package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// counts are the write requests of the controller's account so far.
type counts struct {
	services int
	events   int
	own      int
	refused  int
}

func (c counts) less(o counts) counts {
	return counts{c.services - o.services, c.events - o.events, c.own - o.own, c.refused - o.refused}
}

// auditEvent is what is read of audit.k8s.io/v1 Event.
type auditEvent struct {
	Stage          string `json:"stage"`
	Verb           string `json:"verb"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	ObjectRef struct {
		Resource string `json:"resource"`
		APIGroup string `json:"apiGroup"`
	} `json:"objectRef"`
}

// counts reads the audit log, which holds that account's requests alone.
func (b *bench) counts() (counts, error) {
	file, err := os.Open(b.cluster.AuditLog)
	if os.IsNotExist(err) {
		return counts{}, nil
	}
	if err != nil {
		return counts{}, fmt.Errorf("reading the audit log: %w", err)
	}
	defer func() { _ = file.Close() }()
	var c counts
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e auditEvent
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Stage == "ResponseComplete" {
			c.add(e)
		}
	}
	return c, lines.Err()
}

func (c *counts) add(e auditEvent) {
	if e.ResponseStatus.Code == 403 {
		c.refused++
	}
	switch e.Verb {
	case "create", "update", "patch", "delete":
	default:
		return
	}
	switch {
	case e.ObjectRef.Resource == "services":
		c.services++
	case e.ObjectRef.Resource == "events":
		c.events++
	case e.ObjectRef.APIGroup == "fairlead.dev":
		c.own++
	}
}

// settled waits until no write has come for two seconds, so that queued events
// are counted too.
func (b *bench) settled(ctx context.Context) (counts, error) {
	last, err := b.counts()
	if err != nil {
		return last, err
	}
	quiet := time.Now()
	err = poll(ctx, "the controller to come to rest", func() (bool, error) {
		now, err := b.counts()
		if now != last {
			last, quiet = now, time.Now()
		}
		return time.Since(quiet) >= 2*time.Second, err
	})
	return last, err
}
