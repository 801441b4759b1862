package telemetry

import (
	"context"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/netio"
	"github.com/fairlead-lb/fairlead/internal/proxy"
	"github.com/fairlead-lb/fairlead/internal/testenv"
)

// patience bounds every wait. Only a failing test waits so long.
const patience = 20 * time.Second

// family is what a page says about a metric.
type family struct {
	Type   string
	Labels []string
}

// TestProxyMetricsAreOnTheirPage reads back what a proxy in service exports,
// and compares it with the page for operators.
func TestProxyMetricsAreOnTheirPage(t *testing.T) {
	s := newScene(t)
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(onPage(string(page), "fairlead_"), s.families(t)); diff != "" {
		t.Errorf("docs/metrics.md is not what is exported (-page +exported):\n%s", diff)
	}
}

// TestCollectorTellsWhatItExports: Describe and Collect speak of the same
// metrics, or a second collector could take a name.
func TestCollectorTellsWhatItExports(t *testing.T) {
	s := newScene(t)
	described := make(chan *prometheus.Desc, 100)
	NewProxyCollector(s.proxy.Stats).Describe(described)
	close(described)
	var names []string
	for d := range described {
		_, rest, _ := strings.Cut(d.String(), `fqName: "`)
		name, _, _ := strings.Cut(rest, `"`)
		names = append(names, name)
	}
	slices.Sort(names)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(s.families(t))), names); diff != "" {
		t.Errorf("Describe differs from Collect (-collected +described):\n%s", diff)
	}
}

// TestEveryCounterOfTheProxyIsExported: each number that the proxy keeps has
// its own metric, with its own value.
func TestEveryCounterOfTheProxyIsExported(t *testing.T) {
	next := uint64(0)
	count := func() uint64 { next++; return next }
	stats := proxy.PortStats{
		Owner: model.Key{Namespace: "shop", Name: "web"}, Port: model.Port{Protocol: model.TCP, Number: 443},
		Accepted: count(), Active: count(), Denied: count(), Queued: count(), Refused: count(),
		OutOfFiles: count(), OutOfPorts: count(), Dropped: count(), Retries: count(),
		Closed: []proxy.ReasonCount{{Reason: proxy.ReasonDone, Count: count()}, {Reason: proxy.ReasonDrain, Count: count()}},
		Members: []proxy.MemberStats{{
			Address: netip.MustParseAddrPort("[2001:db8::1]:8443"),
			Active:  count(), Total: count(), Failed: count(), ToMember: count(), FromMember: count(),
		}},
	}
	for _, v := range []reflect.Value{reflect.ValueOf(stats), reflect.ValueOf(stats.Members[0])} {
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				t.Errorf("%s.%s is new and not tried here", v.Type(), v.Type().Field(i).Name)
			}
		}
	}
	const listener = `namespace="shop",port="443",protocol="TCP"`
	const member = `member="[2001:db8::1]:8443",` + listener
	want := map[string]float64{
		`fairlead_proxy_connections_total{` + listener + `,service="web"}`:                 1,
		`fairlead_proxy_active_connections{` + listener + `,service="web"}`:                2,
		`fairlead_proxy_denied_total{` + listener + `,service="web"}`:                      3,
		`fairlead_proxy_queued_total{` + listener + `,service="web"}`:                      4,
		`fairlead_proxy_refused_total{` + listener + `,service="web"}`:                     5,
		`fairlead_proxy_out_of_files_total{` + listener + `,service="web"}`:                6,
		`fairlead_proxy_out_of_ports_total{` + listener + `,service="web"}`:                7,
		`fairlead_proxy_dropped_datagrams_total{` + listener + `,service="web"}`:           8,
		`fairlead_proxy_retries_total{` + listener + `,service="web"}`:                     9,
		`fairlead_proxy_closed_total{` + listener + `,reason="done",service="web"}`:        10,
		`fairlead_proxy_closed_total{` + listener + `,reason="drain",service="web"}`:       11,
		`fairlead_proxy_member_active_connections{` + member + `,service="web"}`:           12,
		`fairlead_proxy_member_connections_total{` + member + `,service="web"}`:            13,
		`fairlead_proxy_member_failures_total{` + member + `,service="web"}`:               14,
		`fairlead_proxy_member_bytes_total{direction="to",` + member + `,service="web"}`:   15,
		`fairlead_proxy_member_bytes_total{direction="from",` + member + `,service="web"}`: 16,
	}
	got := values(t, NewProxyCollector(func() []proxy.PortStats { return []proxy.PortStats{stats} }))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a number is exported twice, wrongly or not at all (-want +got):\n%s", diff)
	}
}

// TestNoLabelNamesAClient: clients are many, and nobody's business.
func TestNoLabelNamesAClient(t *testing.T) {
	s := newScene(t)
	for name := range values(t, NewProxyCollector(s.proxy.Stats)) {
		if strings.Contains(name, s.client.String()) {
			t.Errorf("a label names the client %s: %s", s.client, name)
		}
	}
}

// scene is a proxy with a TCP listener that one connection has passed through.
type scene struct {
	proxy  *proxy.Proxy
	client netip.Addr
}

func newScene(t *testing.T) *scene {
	t.Helper()
	vip, client := machineAddress(t), machineAddress(t)
	member := answering(t, machineAddress(t))
	s := &scene{proxy: proxy.New(proxy.Config{}), client: client}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.proxy.Run(ctx, func(model.Key) {}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("running the proxy: %v", err)
		}
	})
	port := model.Port{Protocol: model.TCP, Number: 8080}
	faults := s.proxy.Set(model.Key{Namespace: "shop", Name: "web"}, "u", []netip.Addr{vip}, []model.Listener{
		{Port: port, Pool: model.Pool{Members: []model.Member{{Address: member, Weight: 1}}}},
	})
	if len(faults) > 0 {
		t.Fatalf("the port is not served: %v", faults)
	}
	visit(t, client, netip.AddrPortFrom(vip, port.Number))
	s.awaitClosed(t)
	return s
}

// awaitClosed waits until the connection is counted as ended.
func (s *scene) awaitClosed(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for len(s.proxy.Stats()[0].Closed) == 0 {
		if time.Now().After(deadline) {
			t.Fatal("the connection is not counted as ended")
		}
		<-tick.C
	}
}

// families returns what is exported, by name.
func (s *scene) families(t *testing.T) map[string]family {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(NewProxyCollector(s.proxy.Stats)); err != nil {
		t.Fatal(err)
	}
	gathered, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]family{}
	for _, f := range gathered {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		slices.Sort(labels)
		out[f.GetName()] = family{strings.ToLower(f.GetType().String()), labels}
	}
	return out
}

// values returns every sample, by its name with labels.
func values(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(c); err != nil {
		t.Fatal(err)
	}
	gathered, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range gathered {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+`="`+l.GetValue()+`"`)
			}
			out[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return out
}

// onPage reads the tables of a page whose rows begin with a metric's name, its
// type and its labels.
func onPage(page, prefix string) map[string]family {
	out := map[string]family{}
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		name := strings.Trim(cells[0], " `")
		if len(cells) < 4 || !strings.HasPrefix(name, prefix) {
			continue
		}
		var labels []string
		for word := range strings.SplitSeq(cells[2], ",") {
			if word = strings.Trim(word, " `"); word != "" {
				labels = append(labels, word)
			}
		}
		slices.Sort(labels)
		out[name] = family{strings.TrimSpace(cells[1]), labels}
	}
	return out
}

// machineAddress returns a loopback address that no other test, process or run
// has until this test ends: whoever holds its last port has it.
func machineAddress(t *testing.T) netip.Addr {
	t.Helper()
	testenv.Require(t, "all of 127.0.0.0/8 on the loopback interface (Linux)", runtime.GOOS == "linux")
	for {
		n := rand.Uint32()
		a := netip.AddrFrom4([4]byte{127, 64 | byte(n>>16)&63, byte(n >> 8), byte(n)})
		l, err := netio.ListenTCP(netip.AddrPortFrom(a, 65535))
		if netio.CauseOf(err) == netio.AddressInUse {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return a
	}
}

// answering serves connections that say something, answers and hangs up.
func answering(t *testing.T, a netip.Addr) netip.AddrPort {
	t.Helper()
	l, err := netio.ListenTCP(netip.AddrPortFrom(a, 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadFull(c, make([]byte, len("hello")))
			_, _ = io.WriteString(c, "goodbye")
			_ = c.Close()
		}
	}()
	return netip.AddrPortFrom(a, l.Addr().(*net.TCPAddr).AddrPort().Port())
}

// visit connects from an address, and reads to the end.
func visit(t *testing.T, from netip.Addr, to netip.AddrPort) {
	t.Helper()
	c, err := net.DialTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0)), net.TCPAddrFromAddrPort(to))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil || string(answer) != "goodbye" {
		t.Fatalf("got %q and error %v from the listener", answer, err)
	}
}
