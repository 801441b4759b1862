//go:build linux

package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// The figures, by the names of their RESULT lines.
const (
	throughput1     = "throughput_1"
	throughput100   = "throughput_100"
	cpuPerGiB1      = "cpu_per_gib_1"
	cpuPerGiB       = "cpu_per_gib"
	connRate        = "conn_rate"
	cpuPerConns     = "cpu_per_1000_connections"
	requestRate     = "request_rate"
	cpuPerRequests  = "cpu_per_1000_requests"
	latency         = "latency"
	p50             = "p50"
	p99             = "p99"
	udpPPS          = "udp_pps"
	udpLost         = "udp_lost"
	cpuPerDatagrams = "cpu_per_1000_datagrams"
	idleBytes       = "idle_bytes_per_connection"
)

// column is one figure of the table, with the unit that it is shown in.
type column struct {
	name, unit string
	scale      float64
	// peers are those it is a RESULT against.
	peers []string
}

func columns() []column {
	return []column{
		{throughput1, "MiB/s", 1 << 20, []string{haproxy}},
		{throughput100, "MiB/s", 1 << 20, []string{haproxy}},
		{connRate, "1/s", 1, []string{haproxy}},
		{requestRate, "1/s", 1, []string{haproxy}},
		{p50, "us", 1, []string{haproxy}},
		{p99, "us", 1, []string{haproxy}},
		{cpuPerGiB1, "ms", 1, []string{haproxy}},
		{cpuPerGiB, "ms", 1, []string{haproxy}},
		{cpuPerConns, "ms", 1, []string{haproxy}},
		{cpuPerRequests, "ms", 1, []string{haproxy}},
		{udpPPS, "1/s", 1, []string{nginx}},
		{udpLost, "share", 1, nil},
		{cpuPerDatagrams, "ms", 1, []string{nginx}},
		{idleBytes, "bytes", 1, []string{haproxy}},
	}
}

func (b *bench) record(name string, f figures) {
	if b.results == nil {
		b.results = map[string][]figures{}
	}
	b.results[name] = append(b.results[name], f)
}

// report prints the medians as a table, and the ratios as RESULT lines.
func (b *bench) report(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	names := []string{direct, haproxy, nginx, fairlead}
	fmt.Fprint(table, "median of the rounds\tunit\t")
	for _, name := range names {
		fmt.Fprintf(table, "%s\t", name)
	}
	fmt.Fprintln(table)
	for _, c := range columns() {
		fmt.Fprintf(table, "%s\t%s\t", c.name, c.unit)
		for _, name := range names {
			text := "-"
			if all := b.values(name, c.name); len(all) > 0 {
				text = fmt.Sprintf("%.4g", median(all)/c.scale)
			}
			fmt.Fprintf(table, "%s\t", text)
		}
		fmt.Fprintln(table)
	}
	_ = table.Flush()
	for _, c := range columns() {
		for _, peer := range c.peers {
			result(w, c.name+".ratio_"+peer, b.ratios(c.name, peer), "%.3f")
		}
	}
	result(w, idleBytes, b.values(fairlead, idleBytes), "%.0f")
}

// values are one subject's figures of a name, round by round.
func (b *bench) values(subject, name string) []float64 {
	var all []float64
	for _, f := range b.results[subject] {
		if v, ok := f[name]; ok {
			all = append(all, v)
		}
	}
	return all
}

// ratios are Fairlead's figures in terms of a peer's of the same round: what
// disturbs the machine for long disturbs both.
func (b *bench) ratios(name, peer string) []float64 {
	own, other := b.values(fairlead, name), b.values(peer, name)
	var all []float64
	for i := range min(len(own), len(other)) {
		if other[i] > 0 {
			all = append(all, own[i]/other[i])
		}
	}
	return all
}

// result prints the median, and as its spread the distance from the lowest to
// the highest value as a share of the median.
func result(w io.Writer, name string, values []float64, format string) {
	if len(values) == 0 {
		return
	}
	m := median(values)
	fmt.Fprintf(w, "RESULT proxy.%s="+format+"\n", name, m)
	fmt.Fprintf(w, "RESULT proxy.%s.spread=%.2f\n", name, (slices.Max(values)-slices.Min(values))/m)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
