package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairlead-lb/fairlead/internal/model"
	"github.com/fairlead-lb/fairlead/internal/netio"
	"github.com/fairlead-lb/fairlead/internal/testenv"
)

const nginxStreamModule = "/usr/lib/nginx/modules/ngx_stream_module.so"

// program returns where a program is, or ends the test by the gate.
func program(t *testing.T, name, debianPackage string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrNotFound) {
		path = filepath.Join("/usr/sbin", name) // often not in a user's PATH
		_, err = os.Stat(path)
	}
	testenv.Require(t, fmt.Sprintf("%s (Debian package %s)", name, debianPackage), err == nil)
	return path
}

// receiver is a real program that tells which addresses it believed.
type receiver struct {
	v4, v6 netip.AddrPort
	// ask is what makes it speak, and want what it then says, given the client
	// and the address that the client dialled.
	ask  string
	want func(client, dialled netip.AddrPort) string
}

// start runs a program with a configuration file until the test ends, and
// waits until it listens.
func start(t *testing.T, config string, listening []netip.AddrPort, command func(file string) *exec.Cmd) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "conf")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(config, "DIR", dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := command(file)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-exited
	})
	for _, at := range listening {
		eventually(t, fmt.Sprintf("%s listens at %s", cmd.Path, at), func() bool {
			select {
			case <-exited:
				t.Fatalf("%s ended: %s", cmd.Path, out.String())
			default:
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			c, err := netio.DialTCP(ctx, at)
			return err == nil && netio.Reset(c) == nil
		})
	}
}

// places returns an IPv4 and an IPv6 address that are free.
func places(t *testing.T) (v4, v6 netip.AddrPort) {
	t.Helper()
	six := netip.IPv6Loopback()
	return netip.AddrPortFrom(testAddress(t), 8080), netip.AddrPortFrom(six, freePort(t, six))
}

func startHAProxy(t *testing.T) receiver {
	t.Helper()
	path := program(t, "haproxy", "haproxy")
	v4, v6 := places(t)
	config := fmt.Sprintf(`
defaults
  mode http
  timeout client 20s
  timeout server 20s
  timeout connect 20s
frontend believed
  bind %s accept-proxy
  bind %s accept-proxy
  http-request return status 200 content-type text/plain lf-string "src=%%[src]:%%[src_port] dst=%%[dst]:%%[dst_port]\n"
`, v4, v6)
	start(t, config, []netip.AddrPort{v4, v6}, func(file string) *exec.Cmd { return exec.Command(path, "-db", "-f", file) })
	return receiver{v4: v4, v6: v6, ask: "GET / HTTP/1.0\r\n\r\n", want: func(client, dialled netip.AddrPort) string {
		return fmt.Sprintf("src=%s:%d dst=%s:%d\n", client.Addr(), client.Port(), dialled.Addr(), dialled.Port())
	}}
}

func startNginxHTTP(t *testing.T) receiver {
	t.Helper()
	path := program(t, "nginx", "nginx")
	v4, v6 := places(t)
	config := fmt.Sprintf(`
daemon off; master_process off; pid DIR/pid; error_log DIR/error.log info;
events { worker_connections 64; }
http {
  access_log off;
  client_body_temp_path DIR/body; proxy_temp_path DIR/proxy; fastcgi_temp_path DIR/fcgi; uwsgi_temp_path DIR/uwsgi; scgi_temp_path DIR/scgi;
  server {
    listen %s proxy_protocol; listen %s proxy_protocol;
    set_real_ip_from 127.0.0.0/8; set_real_ip_from ::1; real_ip_header proxy_protocol;
    location / { return 200 "src=$remote_addr:$remote_port dst=$proxy_protocol_server_addr:$proxy_protocol_server_port\n"; }
  }
}
`, v4, v6)
	start(t, config, []netip.AddrPort{v4, v6}, func(file string) *exec.Cmd {
		return exec.Command(path, "-c", file, "-e", "stderr")
	})
	return receiver{v4: v4, v6: v6, ask: "GET / HTTP/1.0\r\n\r\n", want: func(client, dialled netip.AddrPort) string {
		return fmt.Sprintf("src=%s:%d dst=%s:%d\n", client.Addr(), client.Port(), dialled.Addr(), dialled.Port())
	}}
}

// startNginxStream speaks as soon as it has the header: a server-first protocol.
func startNginxStream(t *testing.T) receiver {
	t.Helper()
	path := program(t, "nginx", "nginx")
	_, err := os.Stat(nginxStreamModule)
	testenv.Require(t, "nginx's stream module (Debian package libnginx-mod-stream)", err == nil)
	v4, v6 := places(t)
	config := fmt.Sprintf(`
load_module %s;
daemon off; master_process off; pid DIR/pid; error_log DIR/error.log info;
events { worker_connections 64; }
stream {
  server {
    listen %s proxy_protocol; listen %s proxy_protocol;
    set_real_ip_from 127.0.0.0/8; set_real_ip_from ::1;
    return "src=$remote_addr:$remote_port dst=$proxy_protocol_server_addr:$proxy_protocol_server_port\n";
  }
}
`, nginxStreamModule, v4, v6)
	start(t, config, []netip.AddrPort{v4, v6}, func(file string) *exec.Cmd {
		return exec.Command(path, "-c", file, "-e", "stderr")
	})
	return receiver{v4: v4, v6: v6, want: func(client, dialled netip.AddrPort) string {
		return fmt.Sprintf("src=%s:%d dst=%s:%d\n", client.Addr(), client.Port(), dialled.Addr(), dialled.Port())
	}}
}

// TestRealReceivers lets real programs read our headers, both versions, for
// clients and members of both families, and compares what they believed.
func TestRealReceivers(t *testing.T) {
	receivers := map[string]func(*testing.T) receiver{
		"HAProxy": startHAProxy, "NginxHTTP": startNginxHTTP, "NginxStream": startNginxStream,
	}
	for name, start := range receivers {
		t.Run(name, func(t *testing.T) {
			rc := start(t)
			for _, version := range []model.ProxyProtocol{model.ProxyV1, model.ProxyV2} {
				for _, vip := range []netip.Addr{testAddress(t), netip.IPv6Loopback()} {
					for _, member := range []netip.AddrPort{rc.v4, rc.v6} {
						t.Run(fmt.Sprintf("%s/%s-to-%s", version, model.FamilyOf(vip), model.FamilyOf(member.Addr())), func(t *testing.T) {
							checkBelieved(t, rc, version, vip, member)
						})
					}
				}
			}
		})
	}
}

func checkBelieved(t *testing.T, rc receiver, version model.ProxyProtocol, vip netip.Addr, member netip.AddrPort) {
	t.Helper()
	r := newRig(t, Config{Random: func() uint64 { return 0 }}) // the check comes at once
	r.vip = vip
	port := freePort(t, vip)
	l := listener(tcpPort(port), member)
	l.Pool.ProxyProtocol = version
	l.Pool.Monitor = model.Monitor{Type: "TCP"} // its header must not disturb the receiver
	r.set(l)
	c := r.dial(port)
	write(t, c, rc.ask)
	all, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("reading the answer: %v after %q", err, all)
	}
	_, body, isHTTP := strings.Cut(string(all), "\r\n\r\n")
	if !isHTTP {
		body = string(all)
	}
	if want := rc.want(netio.Local(c), r.at(port)); body != want {
		t.Errorf("believed %q, want %q", body, want)
	}
	eventually(t, "the check finds it up", func() bool { return r.health().State == model.MemberUp })
}

// TestRealReceiversWithoutHeader is the control: without a header the same
// programs answer nothing, so the test above cannot pass by accident.
func TestRealReceiversWithoutHeader(t *testing.T) {
	rc := startHAProxy(t)
	r := newRig(t, Config{})
	r.set(listener(tcpPort(8080), rc.v4))
	c := r.dial(8080)
	write(t, c, rc.ask)
	got, _ := io.ReadAll(net.Conn(c))
	if strings.Contains(string(got), "src=") {
		t.Errorf("without a header the receiver answered %q", got)
	}
}
