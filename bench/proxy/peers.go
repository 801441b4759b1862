//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The names of what is compared.
const (
	direct   = "direct"
	haproxy  = "haproxy"
	nginx    = "nginx"
	fairlead = "fairlead"
)

// nginxStream is where Debian's libnginx-mod-stream puts the module.
const nginxStream = "/usr/lib/nginx/modules/ngx_stream_module.so"

// subject is one thing that is measured.
type subject struct {
	name string
	udp  bool
	// argv returns its command line when it is to listen at a port; nil:
	// clients talk to the backend.
	argv func(front netip.AddrPort) ([]string, error)
}

// subjects returns what there is to compare on this machine, and says what is
// missing.
func (b *bench) subjects() []subject {
	all := []subject{
		{name: direct, udp: true},
		{name: fairlead, udp: true, argv: b.fairlead},
	}
	if program := b.find(haproxy, "haproxy"); program != "" {
		all = append(all, subject{name: haproxy, argv: func(front netip.AddrPort) ([]string, error) {
			config, err := b.write("haproxy.cfg", b.haproxyConfig(front))
			return []string{program, "-db", "-f", config}, err
		}})
	}
	program := b.find(nginx, "nginx and libnginx-mod-stream")
	if _, err := os.Stat(nginxStream); program != "" && err != nil {
		fmt.Fprintln(os.Stderr, "bench: nginx is left out: install libnginx-mod-stream")
		program = ""
	}
	if program != "" {
		all = append(all, subject{name: nginx, udp: true, argv: func(front netip.AddrPort) ([]string, error) {
			config, err := b.write("nginx.conf", b.nginxConfig(front))
			return []string{program, "-p", b.dir, "-c", config, "-e", filepath.Join(b.dir, "nginx.error")}, err
		}})
	}
	return all
}

func (b *bench) find(program, packages string) string {
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/sbin") {
		if path, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return path
		}
	}
	fmt.Fprintf(os.Stderr, "bench: %s is left out: install the Debian packages %s\n", program, packages)
	return ""
}

func (b *bench) write(name, text string) (string, error) {
	path := filepath.Join(b.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("writing a configuration: %w", err)
	}
	return path, nil
}

// haproxyConfig is HAProxy as Octavia runs it for a TCP listener, with splice.
func (b *bench) haproxyConfig(front netip.AddrPort) string {
	var s strings.Builder
	fmt.Fprintf(&s, "global\n  nbthread %d\n  maxconn %d\n", b.threads, b.idle+500)
	s.WriteString("defaults\n  mode tcp\n  option splice-auto\n  timeout connect 5s\n  timeout client 50s\n  timeout server 50s\n")
	fmt.Fprintf(&s, "listen bench\n  bind %s\n  balance roundrobin\n", front)
	for i, m := range b.members {
		fmt.Fprintf(&s, "  server s%d %s\n", i, m)
	}
	return s.String()
}

// nginxConfig gives each worker its own listening sockets: without them UDP
// clients would move between workers.
func (b *bench) nginxConfig(front netip.AddrPort) string {
	var s strings.Builder
	fmt.Fprintf(&s, "load_module %s;\ndaemon off;\nworker_processes %d;\nuser root;\n", nginxStream, b.threads)
	fmt.Fprintf(&s, "pid %s;\nerror_log %s;\n", filepath.Join(b.dir, "nginx.pid"), filepath.Join(b.dir, "nginx.error"))
	fmt.Fprintf(&s, "events { worker_connections %d; }\nstream {\n  upstream members {\n", 2*b.idle+1000)
	for _, m := range b.members {
		fmt.Fprintf(&s, "    server %s;\n", m)
	}
	s.WriteString("  }\n  proxy_timeout 50s;\n")
	for _, kind := range []string{"", " udp"} {
		fmt.Fprintf(&s, "  server { listen %s%s reuseport; proxy_pass members; }\n", front, kind)
	}
	s.WriteString("}\n")
	return s.String()
}

func (b *bench) fairlead(front netip.AddrPort) ([]string, error) {
	return self("fairlead", fairleadSpec{Front: front, Members: b.members, Threads: b.threads, Profile: b.profile})
}

// launch starts a subject and returns where clients reach it.
func (b *bench) launch(ctx context.Context, s subject) (*process, []netip.AddrPort, error) {
	if s.argv == nil {
		return b.backend, b.members, nil
	}
	address := netip.MustParseAddr("127.0.0.1")
	port, err := freePort(address)
	if err != nil {
		return nil, nil, err
	}
	front := netip.AddrPortFrom(address, port)
	argv, err := s.argv(front)
	if err != nil {
		return nil, nil, err
	}
	p, err := b.start(s.name, argv...)
	if err != nil {
		return nil, nil, err
	}
	if err := p.listens(ctx, front); err != nil {
		p.kill()
		return nil, nil, err
	}
	return p, []netip.AddrPort{front}, nil
}
