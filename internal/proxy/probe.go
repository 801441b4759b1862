package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/netio"
	"github.com/fairlead-lb/fairlead/internal/proxy/proxyproto"
)

const (
	// answerSize bounds what is read of an HTTP answer, in bytes.
	answerSize = 64 << 10
	// silenceMeansUp is how long a UDP check waits for an ICMP error.
	silenceMeansUp = time.Second
)

// statusError is an HTTP answer that does not mean health.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("answered %d to the health check", int(e)) }

func says503(err error) bool {
	var status statusError
	return errors.As(err, &status) && status == http.StatusServiceUnavailable
}

// probe checks a target once. The time limit is that of ctx.
func probe(ctx context.Context, t target) error {
	if t.plan.monitor.Type == checkUDP {
		return probeUDP(ctx, t)
	}
	c, err := netio.DialTCP(ctx, t.at)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { interrupt(c) })()
	if t.plan.monitor.Type == checkHTTP {
		return errors.Join(probeHTTP(c, t), c.Close())
	}
	// A reset leaves no TIME_WAIT behind and no complaint in the receiver's log.
	return errors.Join(writeAll(c, appendCheckHeader(nil, c, t.plan.header)), netio.Reset(c))
}

// appendCheckHeader appends the header that makes a check look like traffic:
// version 2 can say that it comes from nobody, version 1 has to name the check's
// own addresses.
func appendCheckHeader(b []byte, c *net.TCPConn, version model.ProxyProtocol) []byte {
	switch version {
	case model.ProxyV1:
		return proxyproto.AppendV1(b, netio.Local(c), netio.Remote(c))
	case model.ProxyV2:
		return proxyproto.AppendLocal(b)
	case model.ProxyNone:
	}
	return b
}

func writeAll(c net.Conn, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	_, err := c.Write(b)
	return err
}

// probeHTTP asks for the path, header and request in one piece, and looks at
// the status: 200 alone is good where somebody speaks for the member, 200 to
// 399 otherwise. Redirects are not followed.
func probeHTTP(c *net.TCPConn, t target) error {
	b := appendCheckHeader(nil, c, t.plan.header)
	b = fmt.Appendf(b, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: fairlead-health-check\r\nAccept: */*\r\nConnection: close\r\n\r\n", t.plan.monitor.Path, t.at)
	if err := writeAll(c, b); err != nil {
		return err
	}
	limited := bufio.NewReader(io.LimitReader(c, answerSize))
	answer, err := http.ReadResponse(limited, nil)
	if err != nil {
		return fmt.Errorf("reading the answer to the health check: %w", err)
	}
	good := answer.StatusCode >= http.StatusOK && answer.StatusCode < http.StatusBadRequest
	if t.plan.spokenFor() {
		good = answer.StatusCode == http.StatusOK
	}
	// The rest is read so that closing is no reset; what it is does not matter.
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	if !good {
		return statusError(answer.StatusCode)
	}
	return nil
}

// probeUDP sends a datagram and waits a moment for an ICMP error. An answer
// and silence are both good: few protocols answer to nothing.
func probeUDP(ctx context.Context, t target) error {
	c, err := netio.DialUDP(t.at)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(silenceMeansUp)
	if d, limited := ctx.Deadline(); limited && d.Before(deadline) {
		deadline = d
	}
	err = c.SetReadDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err == nil {
		var datagram []byte
		if t.plan.header == model.ProxyV2 {
			datagram = proxyproto.AppendLocal(nil)
		}
		_, err = c.Write(datagram)
	}
	if err == nil {
		_, err = c.Read(make([]byte, 1))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	return errors.Join(err, c.Close())
}

// causeText says for people why a member could not be reached; empty for nil.
func causeText(err error, limit time.Duration) string {
	if err == nil {
		return ""
	}
	cause := netio.CauseOf(err)
	switch cause {
	case netio.Unknown:
		return err.Error()
	case netio.TimedOut:
		return fmt.Sprintf("no answer within %v", limit)
	default:
		return string(cause)
	}
}
