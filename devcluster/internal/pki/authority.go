// Package pki makes what a development cluster proves identities with: one
// certificate authority that is kept between starts, the certificates it
// issues, the key that signs service account tokens, and the kubeconfigs that
// carry them. Every key is readable by its owner alone, and no kubeconfig ever
// skips verification. It knows nothing of who may do what: that is RBAC's.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// Names of the files in the directory of an authority.
const (
	authorityCert = "ca.crt"
	authorityKey  = "ca.key"
	signingKey    = "service-account.key"
)

const (
	authorityLife   = 10 * 365 * 24 * time.Hour
	certificateLife = 365 * 24 * time.Hour
	// clockSlack is how far a certificate reaches back, for clocks that are
	// set back a little while a cluster runs.
	clockSlack = 5 * time.Minute
)

// Authority is a certificate authority. The zero Authority issues nothing; get
// one from OpenAuthority. It is safe for concurrent use.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Pair is a certificate and its private key, both in PEM.
type Pair struct {
	Cert []byte
	Key  []byte
}

// Subject is what a certificate says of its holder. One with Hosts (host names
// or IP addresses) is for a server, one without is for a client; a client's
// Name and Groups are its user and groups to the API server.
type Subject struct {
	Name   string
	Groups []string
	Hosts  []string
}

// OpenAuthority returns the authority kept in dir. A directory without one
// gets a new one; the directory itself must exist.
func OpenAuthority(dir string) (Authority, error) {
	a, err := readAuthority(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return newAuthority(dir)
	}
	return a, err
}

func readAuthority(dir string) (Authority, error) {
	var a Authority
	block, err := readPEM(filepath.Join(dir, authorityCert))
	if err != nil {
		return a, err
	}
	if a.cert, err = x509.ParseCertificate(block); err != nil {
		return a, fmt.Errorf("parsing certificate of authority in %s: %w", dir, err)
	}
	if block, err = readPEM(filepath.Join(dir, authorityKey)); err != nil {
		return a, err
	}
	if a.key, err = x509.ParseECPrivateKey(block); err != nil {
		return a, fmt.Errorf("parsing key of authority in %s: %w", dir, err)
	}
	return a, nil
}

func newAuthority(dir string) (Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Authority{}, fmt.Errorf("generating key of authority: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "devcluster"},
		NotBefore:             now.Add(-clockSlack),
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return Authority{}, fmt.Errorf("signing certificate of authority: %w", err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return Authority{}, err
	}
	// The certificate is written last: a start that died between the two finds
	// no certificate and makes both anew.
	if err := os.WriteFile(filepath.Join(dir, authorityKey), keyPEM, 0o600); err != nil {
		return Authority{}, fmt.Errorf("writing key of authority: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, authorityCert), encodeCert(der), 0o600); err != nil {
		return Authority{}, fmt.Errorf("writing certificate of authority: %w", err)
	}
	return readAuthority(dir)
}

// CertPEM is the authority's own certificate, with which its others are verified.
func (a Authority) CertPEM() []byte { return encodeCert(a.cert.Raw) }

// CertFile is the path of the authority's certificate in dir.
func CertFile(dir string) string { return filepath.Join(dir, authorityCert) }

// Issue makes a certificate for s that is valid for a year.
func (a Authority) Issue(s Subject) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("generating key for %s: %w", s.Name, err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return Pair{}, fmt.Errorf("drawing serial number for %s: %w", s.Name, err)
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: s.Name, Organization: s.Groups},
		NotBefore:    now.Add(-clockSlack),
		NotAfter:     now.Add(certificateLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if len(s.Hosts) > 0 {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	for _, host := range s.Hosts {
		if ip, err := netip.ParseAddr(host); err == nil {
			template.IPAddresses = append(template.IPAddresses, ip.AsSlice())
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("signing certificate for %s: %w", s.Name, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{Cert: encodeCert(der), Key: keyPEM}, nil
}

// SigningKey returns the path of the private key in dir that signs service
// account tokens (ES256), and makes the key if there is none. A kept key keeps
// the tokens of earlier starts valid.
func SigningKey(dir string) (string, error) {
	path := filepath.Join(dir, signingKey)
	if _, err := readPEM(path); !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", fmt.Errorf("generating key for service account tokens: %w", err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(path, keyPEM, 0o600); err != nil {
		return "", fmt.Errorf("writing key for service account tokens: %w", err)
	}
	return path, nil
}

func readPEM(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("reading %s: no PEM block in it; remove the file to have a new one made", path)
	}
	return block.Bytes, nil
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}
