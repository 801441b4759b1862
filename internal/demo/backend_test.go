//go:build linux

package demo

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/fairlead-lb/fairlead/internal/proxy/proxyproto"
)

func TestBackend(t *testing.T) {
	b, err := startBackend(t.Context(), "hello-7", netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)

	t.Run("Plain", func(t *testing.T) {
		v, err := call(t.Context(), b.plain, remoteClient())
		if err != nil || v.backend != "hello-7" || v.client != remoteClient() {
			t.Errorf("%+v, %v: a caller without a load balancer is seen as it is", v, err)
		}
	})
	t.Run("Header", func(t *testing.T) {
		src := netip.MustParseAddrPort("127.8.8.8:4242")
		got, err := callWithHeader(b.proxied, proxyproto.AppendV2(nil, proxyproto.Stream, src, b.proxied))
		if want := "hello from hello-7, you are 127.8.8.8:4242\n"; err != nil || got != want {
			t.Errorf("answered %q, %v; want %q", got, err, want)
		}
	})
	t.Run("NoClient", func(t *testing.T) {
		got, err := callWithHeader(b.proxied, proxyproto.AppendLocal(nil))
		if err != nil {
			t.Fatal(err)
		}
		if v, err := readVisit(got); err != nil || v.client != netip.MustParseAddr("127.0.0.1") {
			t.Errorf("%+v, %v: a sender that speaks for itself is the client", v, err)
		}
	})
	t.Run("NoHeader", func(t *testing.T) {
		if v, err := call(t.Context(), b.proxied, netip.Addr{}); err == nil {
			t.Errorf("answered %+v to a request without the header", v)
		}
	})
	t.Run("SilentCaller", func(t *testing.T) {
		silent, err := net.Dial("tcp", b.proxied.String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = silent.Close() }()
		if _, err := callWithHeader(b.proxied, proxyproto.AppendLocal(nil)); err != nil {
			t.Errorf("one that says nothing held up another: %v", err)
		}
	})
}

// callWithHeader sends a header and a request in one piece and returns the
// answer's body.
func callWithHeader(to netip.AddrPort, header []byte) (string, error) {
	c, err := net.Dial("tcp", to.String())
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(c, "%sGET / HTTP/1.1\r\nHost: hello\r\n\r\n", header); err != nil {
		return "", err
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	return string(body), err
}

func TestReadVisitRefuses(t *testing.T) {
	for _, answer := range []string{"", "hello", "404 page not found", "hello from a, you are b"} {
		if v, err := readVisit(answer); err == nil {
			t.Errorf("took %q for an answer: %+v", answer, v)
		}
	}
}
