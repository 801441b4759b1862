package telemetry

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlead-lb/fairlead/internal/proxy"
)

// The label names of all metrics. None ever holds a client's address.
const (
	labelNamespace = "namespace"
	labelService   = "service"
	labelProtocol  = "protocol"
	labelPort      = "port"
	labelReason    = "reason"
	labelMember    = "member"
	labelDirection = "direction"
)

// ProxyCollector exports the counters of the L4 proxy of this process. They
// start at zero with the process, and a listener's go with the listener.
type ProxyCollector struct {
	stats func() []proxy.PortStats

	connections, active, denied, queued, refused, outOfFiles, outOfPorts, dropped, retries, closed *prometheus.Desc

	memberActive, memberConnections, memberFailures, memberBytes *prometheus.Desc
}

// NewProxyCollector returns a collector of what stats returns when asked.
func NewProxyCollector(stats func() []proxy.PortStats) *ProxyCollector {
	listener := []string{labelNamespace, labelService, labelProtocol, labelPort}
	member := append(append([]string{}, listener...), labelMember)
	desc := func(name, help string, labels []string) *prometheus.Desc {
		return prometheus.NewDesc("fairlead_proxy_"+name, help, labels, nil)
	}
	return &ProxyCollector{
		stats:             stats,
		connections:       desc("connections_total", "Connections and UDP flows let in. Labeled by listener.", listener),
		active:            desc("active_connections", "Connections and UDP flows that go on, draining ones included. Labeled by listener.", listener),
		denied:            desc("denied_total", "Connections, and datagrams, from outside of the source ranges. Labeled by listener.", listener),
		queued:            desc("queued_total", "Connections that had to wait at the connection limit. Labeled by listener.", listener),
		refused:           desc("refused_total", "Connections that were reset at the connection limit. Labeled by listener.", listener),
		outOfFiles:        desc("out_of_files_total", "Times that file descriptors were short. Labeled by listener.", listener),
		outOfPorts:        desc("out_of_ports_total", "Times that no local port was left to connect to a member from. Labeled by listener.", listener),
		dropped:           desc("dropped_datagrams_total", "Datagrams from clients that went to no member. Labeled by listener.", listener),
		retries:           desc("retries_total", "Attempts on another member after a failed one. Labeled by listener.", listener),
		closed:            desc("closed_total", "Connections and UDP flows that ended. Labeled by listener and reason.", append(append([]string{}, listener...), labelReason)),
		memberActive:      desc("member_active_connections", "Connections and UDP flows a member has now. Labeled by listener and member.", member),
		memberConnections: desc("member_connections_total", "Connections and UDP flows a member was chosen for, failed ones included. Labeled by listener and member.", member),
		memberFailures:    desc("member_failures_total", "Connections and UDP flows that a member did not take. Labeled by listener and member.", member),
		memberBytes:       desc("member_bytes_total", "Payload bytes; PROXY headers are none. Labeled by listener, member and direction (to, from the member).", append(append([]string{}, member...), labelDirection)),
	}
}

// Describe implements prometheus.Collector.
func (c *ProxyCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.connections, c.active, c.denied, c.queued, c.refused, c.outOfFiles, c.outOfPorts, c.dropped, c.retries, c.closed,
		c.memberActive, c.memberConnections, c.memberFailures, c.memberBytes,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *ProxyCollector) Collect(out chan<- prometheus.Metric) {
	for _, s := range c.stats() {
		labels := []string{s.Owner.Namespace, s.Owner.Name, string(s.Port.Protocol), portText(s.Port.Number)}
		out <- counter(c.connections, s.Accepted, labels...)
		out <- gauge(c.active, s.Active, labels...)
		out <- counter(c.denied, s.Denied, labels...)
		out <- counter(c.queued, s.Queued, labels...)
		out <- counter(c.refused, s.Refused, labels...)
		out <- counter(c.outOfFiles, s.OutOfFiles, labels...)
		out <- counter(c.outOfPorts, s.OutOfPorts, labels...)
		out <- counter(c.dropped, s.Dropped, labels...)
		out <- counter(c.retries, s.Retries, labels...)
		for _, r := range s.Closed {
			out <- counter(c.closed, r.Count, append(labels, r.Reason.String())...)
		}
		for _, m := range s.Members {
			c.collectMember(out, m, append(labels, m.Address.String()))
		}
	}
}

func (c *ProxyCollector) collectMember(out chan<- prometheus.Metric, m proxy.MemberStats, labels []string) {
	out <- gauge(c.memberActive, m.Active, labels...)
	out <- counter(c.memberConnections, m.Total, labels...)
	out <- counter(c.memberFailures, m.Failed, labels...)
	out <- counter(c.memberBytes, m.ToMember, append(labels, "to")...)
	out <- counter(c.memberBytes, m.FromMember, append(labels, "from")...)
}

func counter(d *prometheus.Desc, n uint64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

func gauge(d *prometheus.Desc, n uint64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
}

func portText(n uint16) string { return strconv.Itoa(int(n)) }
