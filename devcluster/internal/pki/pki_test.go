package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

func open(t *testing.T, dir string) Authority {
	t.Helper()
	a, err := OpenAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestOpenAuthorityAgain(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	if again := open(t, dir); !bytes.Equal(first.CertPEM(), again.CertPEM()) || !first.key.Equal(again.key) {
		t.Error("a second start made another authority; kubeconfigs of the first are void")
	}
	if err := os.Remove(CertFile(dir)); err != nil {
		t.Fatal(err)
	}
	if half := open(t, dir); half.cert.CheckSignatureFrom(half.cert) != nil || !half.key.PublicKey.Equal(half.cert.PublicKey) {
		t.Error("after a start that died half-way, key and certificate do not belong together")
	}
	if err := os.WriteFile(CertFile(dir), []byte("not PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenAuthority(dir); err == nil || !strings.Contains(err.Error(), "remove the file") {
		t.Errorf("got %v for a broken file, want what to do", err)
	}
}

func TestKeysArePrivate(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	if _, err := SigningKey(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{authorityKey, signingKey} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v; want that its owner alone reads it", name, info.Mode(), err)
		}
	}
}

func TestSigningKeyIsKept(t *testing.T) {
	dir := t.TempDir()
	read := func() []byte {
		path, err := SigningKey(dir)
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	if !bytes.Equal(read(), read()) {
		t.Error("a second start made another key; tokens of the first are void")
	}
}

func TestIssue(t *testing.T) {
	a := open(t, t.TempDir())
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	cases := map[string]struct {
		reason  string
		subject Subject
		usage   x509.ExtKeyUsage
		host    string
		valid   bool
	}{
		"Client":         {reason: "without hosts it proves a client", subject: Subject{Name: "u", Groups: []string{"g"}}, usage: x509.ExtKeyUsageClientAuth, valid: true},
		"ClientAsServer": {reason: "a client must not pose as the server", subject: Subject{Name: "u"}, usage: x509.ExtKeyUsageServerAuth},
		"ServerAsClient": {reason: "nor the server as a client", subject: Subject{Name: "s", Hosts: []string{"h"}}, usage: x509.ExtKeyUsageClientAuth},
		"ServerName":     {reason: "a name", subject: Subject{Hosts: []string{"127.0.0.1", "h"}}, usage: x509.ExtKeyUsageServerAuth, host: "h", valid: true},
		"ServerAddress":  {reason: "an address", subject: Subject{Hosts: []string{"::1", "h"}}, usage: x509.ExtKeyUsageServerAuth, host: "::1", valid: true},
		"OtherHost":      {reason: "no other host", subject: Subject{Hosts: []string{"127.0.0.1"}}, usage: x509.ExtKeyUsageServerAuth, host: "127.0.0.2"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pair, err := a.Issue(tc.subject)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tls.X509KeyPair(pair.Cert, pair.Key); err != nil {
				t.Fatal(err)
			}
			block, _ := pem.Decode(pair.Cert)
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				t.Fatal(err)
			}
			_, err = cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: tc.host, KeyUsages: []x509.ExtKeyUsage{tc.usage}})
			if (err == nil) != tc.valid {
				t.Errorf("verified with %v, want valid %v: %s", err, tc.valid, tc.reason)
			}
			if cert.Subject.CommonName != tc.subject.Name || len(cert.Subject.Organization) != len(tc.subject.Groups) {
				t.Errorf("subject %v, want %+v", cert.Subject, tc.subject)
			}
		})
	}
}

func TestWriteKubeconfig(t *testing.T) {
	dir := t.TempDir()
	a, path := open(t, dir), filepath.Join(dir, "kubeconfig")
	pair, err := a.Issue(Subject{Name: "u"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []Credential{{Client: pair}, {Token: "secret"}} { // the second replaces the first
		if err := a.WriteKubeconfig(path, "https://127.0.0.1:1", "u", c); err != nil {
			t.Fatal(err)
		}
		config, err := clientcmd.BuildConfigFromFlags("", path)
		if err != nil {
			t.Fatal(err)
		}
		if config.Host != "https://127.0.0.1:1" || config.BearerToken != c.Token || !bytes.Equal(config.CertData, c.Client.Cert) {
			t.Errorf("read back %s, token %q", config.Host, config.BearerToken)
		}
		if config.Insecure || !bytes.Equal(config.CAData, a.CertPEM()) {
			t.Error("the server would not be verified by the authority")
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, %v; want that its owner alone reads it", info.Mode(), err)
		}
	}
}
