package amqp

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"backlog/backlog"
	"backlog/internal/testserver"
)

// TLS both ways, with a CA of one's own: the broker takes only clients that have a
// certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	u, ctl := testserver.RabbitMQVhost(t)
	dir, err := os.MkdirTemp("", "backlog-tls-") // which the broker's user reads
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	writeCertificates(t, dir)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	l.Close()
	file := func(name string) string { return filepath.Join(dir, name) }
	address := fmt.Sprintf(`{"127.0.0.1", %s}`, port)
	ctl("eval", fmt.Sprintf(`application:ensure_all_started(ssl),
		rabbit_networking:start_ssl_listener(%s, [{cacertfile, %q}, {certfile, %q}, {keyfile, %q}, {verify, verify_peer}, {fail_if_no_peer_cert, true}], 1).`,
		address, file("ca.pem"), file("cert.pem"), file("key.pem")))
	defer ctl("eval", "rabbit_networking:stop_tcp_listener("+address+").")
	s, b := brokerAt(t, u.String())
	over := *u
	over.Scheme, over.Host = "amqps", "127.0.0.1:"+port
	for query, want := range map[string]string{
		"":                             "certificate signed by unknown authority; the URL names its CA by ?cacertfile=ca.pem",
		"cacertfile=" + file("ca.pem"): "certificate",
		"cacertfile=" + file("no.pem"): "no.pem",
		"cacertfile=" + file("ca.pem") + "&certfile=" + file("cert.pem") + "&keyfile=" + file("key.pem"): "",
	} {
		over.RawQuery = query
		s.URL = []string{over.String()}
		c := &Source{Settings: *s}
		defer c.Close()
		err := c.Open(t.Context())
		if want == "" {
			b.check(err)
			serve(t, c, fails)
			b.send(amqp.Publishing{Body: []byte("over TLS")})
			b.receive(s.Queue + "-error")
		} else if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "guest") {
			t.Errorf("%s: %v, want %q", query, err, want)
		}
		if query == "" && errors.Is(err, backlog.ErrUnavailable) {
			t.Error("it waits for another certificate")
		}
	}
}

// writeCertificates writes ca.pem, and cert.pem and key.pem of server and client.
func writeCertificates(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	own := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "own"}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	write := func(name, kind string, der []byte, err error) {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	write("ca.pem", "CERTIFICATE", der, err)
	der, err = x509.CreateCertificate(rand.Reader, own, ca, key.Public(), key)
	write("cert.pem", "CERTIFICATE", der, err)
	der, err = x509.MarshalECPrivateKey(key)
	write("key.pem", "EC PRIVATE KEY", der, errors.Join(err, os.Chmod(dir, 0o755)))
}
