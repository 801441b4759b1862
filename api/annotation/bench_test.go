package annotation

import "testing"

func BenchmarkParse(b *testing.B) {
	in := Input{
		Annotations: map[string]string{ProxyProtocol.Key(): "v2", occmKey + "timeout-client-data": "70000", ourKey + "address": "127.77.0.4"},
		Spec:        map[Name]string{SourceRanges: "10.0.0.0/8,192.168.0.0/16"},
		Provider:    Local,
		Ports:       ports(),
	}
	b.ReportAllocs()
	for b.Loop() {
		if r := Parse(in); len(r.Problems) > 0 {
			b.Fatal(r.Problems)
		}
	}
}
