package annotation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// ports are a web server's, with HTTP/3, and a name server's.
func ports() []Port {
	return []Port{
		{"TCP", 80, "http"},
		{"TCP", 443, "https"},
		{"UDP", 443, "quic"},
		{"TCP", 53, "dns-tcp"},
		{"UDP", 53, "dns"},
		{"SCTP", 9, "sctp"},
	}
}

func TestPerPort(t *testing.T) {
	cases := map[string]struct {
		reason string
		option Name
		value  string
		text   string            // accepted
		want   map[string]string // by port name; absent: not set
		near   string            // suggestion of the one problem
		kind   Kind
	}{
		"service-wide": {
			reason: "a value alone means the TCP ports",
			option: ProxyProtocol, value: "v1", text: "v1",
			want: map[string]string{"http": "v1", "https": "v1", "dns-tcp": "v1"},
		},
		"service-wide v2": {
			reason: "also v2, which UDP could have",
			option: ProxyProtocol, value: "v2", text: "v2",
			want: map[string]string{"http": "v2", "https": "v2", "dns-tcp": "v2"},
		},
		"all protocols": {
			reason: "an option for all protocols goes to all ports",
			option: HealthMonitorDelay, value: "7", text: "7",
			want: map[string]string{"http": "7", "https": "7", "quic": "7", "dns": "7", "dns-tcp": "7", "sctp": "7"},
		},
		"number is TCP": {
			reason: "a number alone is the TCP port",
			option: ProxyProtocol, value: "443=v2", text: "TCP/443=v2",
			want: map[string]string{"https": "v2"},
		},
		"protocol and number": {
			reason: "UDP gets v2 when it is asked for; letter case of the protocol does not count",
			option: ProxyProtocol, value: " v1 , udp/53=v2 , 443 = off ", text: "v1,UDP/53=v2,TCP/443=off",
			want: map[string]string{"http": "v1", "https": "off", "dns-tcp": "v1", "dns": "v2"},
		},
		"name": {
			reason: "a port's name is its own choice, also of a UDP port",
			option: ProxyProtocol, value: "http=v1,quic=v2", text: "http=v1,quic=v2",
			want: map[string]string{"http": "v1", "quic": "v2"},
		},
		"number before name": {
			reason: "protocol and number count for more than a name",
			option: ProxyProtocol, value: "http=v1,80=v2", text: "TCP/80=v2,http=v1",
			want: map[string]string{"http": "v2"},
		},
		"v1 on UDP by number": {
			reason: "v1 knows no UDP",
			option: ProxyProtocol, value: "v1,UDP/53=v1", kind: Invalid,
		},
		"v1 on UDP by name": {
			reason: "nor when the port is named",
			option: ProxyProtocol, value: "dns=v1", kind: Invalid,
		},
		"SCTP": {
			reason: "PROXY protocol has no SCTP",
			option: ProxyProtocol, value: "sctp=v2", kind: Invalid,
		},
		"off on SCTP": {
			reason: "not even off can be said of it",
			option: ProxyProtocol, value: "SCTP/9=off", kind: Invalid,
		},
		"HTTP on UDP": {
			reason: "HTTP options are for TCP",
			option: XForwardedFor, value: "UDP/443=true", kind: Invalid,
		},
		"no HTTP on UDP": {
			reason: "false changes nothing, and may be said",
			option: XForwardedFor, value: "true,quic=false", text: "true,quic=false",
			want: map[string]string{"http": "true", "https": "true", "dns-tcp": "true", "quic": "false"},
		},
		"bad value of one port": {
			reason: "the whole text is mended in the suggestion",
			option: ProxyProtocol, value: "v1,443=V2", kind: Invalid, near: "v1,TCP/443=v2",
		},
		"two bad values": {
			reason: "there is no suggestion that would still be wrong",
			option: ProxyProtocol, value: "V1,443=nonsense", kind: Invalid,
		},
		"value after a comma": {
			reason: "only the first part may go without a port",
			option: ProxyProtocol, value: "v1,v2", kind: Invalid,
		},
		"port twice": {
			reason: "one port, one value",
			option: ProxyProtocol, value: "443=v1,TCP/443=v2", kind: Invalid,
		},
		"not per port": {
			reason: "an option for the whole Service knows no ports",
			option: ConnectionLimit, value: "80=5", kind: Invalid,
		},
		"no such port": {
			reason: "the others get theirs",
			option: ProxyProtocol, value: "80=v1,8443=v1", text: "TCP/80=v1,TCP/8443=v1", kind: Unmatched,
			want: map[string]string{"http": "v1"},
		},
		"no such name": {
			reason: "a near name is suggested",
			option: ProxyProtocol, value: "htps=v1", text: "htps=v1", kind: Unmatched, near: "https=v1",
		},
		"port out of range": {
			reason: "70000 is no port",
			option: ProxyProtocol, value: "70000=v1", kind: Invalid,
		},
		"URL": {
			reason: "a URL with = in it is a value, with or without a port",
			option: DefaultTLSContainerRef, value: "https://keys/v1/secrets/1?a=b", text: "https://keys/v1/secrets/1?a=b",
			want: map[string]string{"http": "https://keys/v1/secrets/1?a=b", "https": "https://keys/v1/secrets/1?a=b", "dns-tcp": "https://keys/v1/secrets/1?a=b"},
		},
		"URL of a port": {
			reason: "the first = parts port and value",
			option: DefaultTLSContainerRef, value: "https=https://keys/v1/secrets/1?a=b", text: "https=https://keys/v1/secrets/1?a=b",
			want: map[string]string{"https": "https://keys/v1/secrets/1?a=b"},
		},
		"empty for one port": {
			reason: "where empty is a value, it is for one port too",
			option: DefaultTLSContainerRef, value: "ref,http=", text: "ref,http=",
			want: map[string]string{"https": "ref", "dns-tcp": "ref", "http": ""},
		},
		"empty where it is none": {
			reason: "a port without a value is a mistake",
			option: ProxyProtocol, value: "v1,http=", kind: Invalid,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := Parse(Input{Annotations: map[string]string{c.option.Key(): c.value}, Ports: ports()})
			if got := r.Accepted[c.option]; got != c.text {
				t.Errorf("%s: accepted %q, want %q; %v", c.reason, got, c.text, r.Problems)
			}
			got := map[string]string{}
			for _, p := range ports() {
				if v, ok := r.Values.For(p).Text(c.option); ok {
					got[p.Name] = v
				}
			}
			if d := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, d)
			}
			checkProblem(t, r.Problems, c.kind, c.near)
		})
	}
}

// checkProblem wants one problem of a kind with a suggestion, or none.
func checkProblem(t *testing.T, got []Problem, kind Kind, near string) {
	t.Helper()
	if kind == "" {
		if len(got) > 0 {
			t.Errorf("problems %v, want none", got)
		}
		return
	}
	if len(got) != 1 || got[0].Kind != kind || got[0].Suggestion != near {
		t.Errorf("problems %+v, want one of kind %s with suggestion %q", got, kind, near)
	}
}

func TestPerPortWithoutPorts(t *testing.T) {
	r := Parse(Input{Annotations: map[string]string{ProxyProtocol.Key(): "dns=v1,nowhere=v2"}})
	if len(r.Problems) > 0 {
		t.Errorf("ports are checked although none are known: %v", r.Problems)
	}
	// What could not be checked is not given to a port that cannot have it.
	if v, ok := r.Values.For(Port{"UDP", 53, "dns"}).Text(ProxyProtocol); ok {
		t.Errorf("a UDP port gets %q", v)
	}
}
