package proxy

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/fairlead-lb/fairlead/internal/model"
)

// These variables make the test binary a proxy process of its own.
const (
	childVIP     = "FAIRLEAD_TEST_PROXY_VIP"     // where it serves; set: it is one
	childMember  = "FAIRLEAD_TEST_PROXY_MEMBER"  // whom it serves, TCP and UDP
	childInherit = "FAIRLEAD_TEST_PROXY_INHERIT" // the socket of the process before it
	childOffer   = "FAIRLEAD_TEST_PROXY_OFFER"   // its own socket for the next one
)

// childMain is a proxy process: it takes over, says "serving", waits for its
// successor, hands over, and ends when its connections have.
func childMain() int {
	err := func() error {
		cfg := Config{ShutdownGrace: patienceOfTests}
		if path := os.Getenv(childInherit); path != "" {
			c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
			if err != nil {
				return err
			}
			defer c.Close()
			if cfg.Inherited, err = Inherit(c); err != nil {
				return err
			}
		}
		offer, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: os.Getenv(childOffer), Net: "unixpacket"})
		if err != nil {
			return err
		}
		defer offer.Close()
		return serveChild(New(cfg), offer)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "proxy process:", err)
		return 1
	}
	return 0
}

func serveChild(p *Proxy, offer *net.UnixListener) error {
	vip, member := netip.MustParseAddr(os.Getenv(childVIP)), netip.MustParseAddrPort(os.Getenv(childMember))
	faults := p.Set(model.Key{Name: "web"}, "uid", []netip.Addr{vip}, []model.Listener{listener(tcpPort(8080), member), listener(udpPort(5353), member)})
	if len(faults) > 0 {
		return fmt.Errorf("setting: %+v", faults)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx, func(model.Key) {}) }()
	if p.cfg.Inherited != nil {
		if err := p.cfg.Inherited.Complete(); err != nil {
			return err
		}
	}
	fmt.Println("serving")
	next, err := offer.AcceptUnix()
	if err != nil {
		return err
	}
	defer next.Close()
	if err := p.Handover(next); err != nil {
		return err
	}
	stop()
	return <-ended
}
