//go:build linux

package demo

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// visit is one request and its answer.
type visit struct {
	answer string
	// backend is who answered, and client whom it took the caller for.
	backend string
	client  netip.Addr
}

// call makes one HTTP request over a connection of its own. A valid from is
// the address that the client's socket is bound to.
func call(ctx context.Context, to netip.AddrPort, from netip.Addr) (visit, error) {
	ctx, cancel := context.WithTimeout(ctx, headerPatience)
	defer cancel()
	dialer := &net.Dialer{}
	if from.IsValid() {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	}
	client := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+to.String()+"/", nil)
	if err != nil {
		return visit{}, fmt.Errorf("calling %s: %w", to, err)
	}
	answer, err := client.Do(request)
	if err != nil {
		return visit{}, err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1024))
	if err != nil {
		return visit{}, fmt.Errorf("reading the answer of %s: %w", to, err)
	}
	return readVisit(strings.TrimSpace(string(body)))
}

// readVisit takes a backend's answer apart.
func readVisit(answer string) (visit, error) {
	v := visit{answer: answer}
	var client string
	if _, err := fmt.Sscanf(strings.Replace(answer, ",", "", 1), "hello from %s you are %s", &v.backend, &client); err != nil {
		return visit{}, fmt.Errorf("reading the answer %q: %w", answer, err)
	}
	at, err := netip.ParseAddrPort(client)
	if err != nil {
		return visit{}, fmt.Errorf("reading the answer %q: %w", answer, err)
	}
	v.client = at.Addr()
	return v, nil
}

// callUntil calls until somebody answers, for as long as endpoints take to
// become known.
func (d *demo) callUntil(ctx context.Context, to netip.AddrPort, from netip.Addr) (visit, error) {
	var v visit
	err := until(ctx, 10*time.Second, "an answer", func() (err error) {
		v, err = call(ctx, to, from)
		return err
	})
	return v, err
}

// showCall calls, and shows the call with its answer.
func (d *demo) showCall(ctx context.Context, to netip.AddrPort, from netip.Addr) (visit, error) {
	v, err := d.callUntil(ctx, to, from)
	if err != nil {
		return visit{}, err
	}
	if from.IsValid() {
		d.say("  from %s  GET http://%s/  →  %s", from, to, v.answer)
	} else {
		d.say("  GET http://%s/  →  %s", to, v.answer)
	}
	return v, nil
}
