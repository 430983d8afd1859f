package daemon

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// folderOf writes files into a folder of the test's own.
func folderOf(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// certificate makes a key and a certificate of 127.0.0.1 that vouches for itself.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	public, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string, bytes []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}))
	}
	return block("CERTIFICATE", public), block("PRIVATE KEY", text)
}

const webOnly = "web: {config_file: web.yml, listen_address: \"127.0.0.1:0\"}\nworkloads: {}\nprobes: {}\ntargets: []\n"

// The URL that is printed is the one that answers.
func TestURLKnowsOfTLS(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(cert))
	for _, tt := range []struct{ web, scheme string }{
		{"tls_server_config: {cert_file: cert.pem, key_file: key.pem}", "https://127.0.0.1:"},
		{"basic_auth_users: {}", "http://127.0.0.1:"},
	} {
		folder := folderOf(t, map[string]string{"cert.pem": cert, "key.pem": key, "web.yml": tt.web, "inferbeat.yaml": webOnly})
		d := daemonWith(t, Options{ConfigFiles: []string{filepath.Join(folder, "inferbeat.yaml")}, Version: "test"})
		if !strings.HasPrefix(d.URL(), tt.scheme) {
			t.Errorf("%s: URL %s, want %s…", tt.web, d.URL(), tt.scheme)
			continue
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
		resp, err := client.Get(d.URL() + "/metrics")
		if err != nil {
			t.Errorf("%s: %v", tt.web, err)
			continue
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: status %s", tt.web, resp.Status)
		}
	}
}

// What cannot be served is told at the start, and nothing secret that the file holds.
func TestBadWebConfig(t *testing.T) {
	for _, text := range []string{"tls_server_config: {cert_file: missing.pem, key_file: missing.pem}", "tls_server_config: {key: SECRET}", "nonsense: 1"} {
		folder := folderOf(t, map[string]string{"web.yml": text, "inferbeat.yaml": webOnly})
		_, err := New(Options{ConfigFiles: []string{filepath.Join(folder, "inferbeat.yaml")}})
		if err == nil || !strings.HasPrefix(err.Error(), "read web.config_file: ") || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: got %v", text, err)
		}
	}
}
