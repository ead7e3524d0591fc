package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

// certificate returns a self-signed certificate for this machine, and writes the certificate and its key
// to the folder dir.
func certificate(t *testing.T, dir, name string) (pair tls.Certificate, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	certFile, keyFile = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+"-key.pem")
	must(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	must(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	pair, err = tls.LoadX509KeyPair(certFile, keyFile)
	must(t, err)
	return pair, certFile, keyFile
}

// TestReceiveOTLPForOtherMachines uses senders with and without the credentials that the receiver requires from
// other machines: a token, or a certificate of a known authority. Each sender uses HTTP/1.1, HTTP/2, and HTTP/2
// with the headers of gRPC.
func TestReceiveOTLPForOtherMachines(t *testing.T) {
	const token = "0123456789abcdef"
	t.Setenv("TOKEN", token)
	keys := t.TempDir()
	server, certFile, keyFile := certificate(t, keys, "server")
	known, caFile, _ := certificate(t, keys, "client")
	stranger, _, _ := certificate(t, keys, "stranger")
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Leaf)
	secure := []string{"--tls-cert", certFile, "--tls-key", keyFile}
	for _, tt := range []struct {
		name  string
		flags []string
		cert  *tls.Certificate
		token string
		want  int // the status; 0: no connection
	}{
		{"the token", []string{"--token-env", "TOKEN"}, nil, token, 200},
		{"another token", []string{"--token-env", "TOKEN"}, nil, "f" + token[1:], 401},
		{"no token", []string{"--token-env", "TOKEN"}, nil, "", 401},
		{"a certificate", []string{"--client-ca", caFile}, &known, "", 200},
		{"a certificate of nobody who is known", []string{"--client-ca", caFile}, &stranger, "", 0},
		{"no certificate", []string{"--client-ca", caFile}, nil, "", 0},
		{"a certificate and no token", []string{"--client-ca", caFile, "--token-env", "TOKEN"}, &known, "", 401},
		{"a certificate and the token", []string{"--client-ca", caFile, "--token-env", "TOKEN"}, &known, token, 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			args := append([]string{"receive", "--otlp", "--listen", "", "--dir", dir, "--otlp-http", "0.0.0.0:0", "--otlp-grpc", ""}, secure...)
			c := start(t, append(args, tt.flags...)...)
			c.await(&c.errs, "listening for OTLP at https://")
			address := "https://127.0.0.1:" + regexp.MustCompile(`https://[^\n]*:(\d+)\n`).FindStringSubmatch(c.errs.String())[1]
			for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0", "gRPC"} {
				o := &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS13}
				if tt.cert != nil {
					o.Certificates = []tls.Certificate{*tt.cert}
				}
				protocols := new(http.Protocols)
				protocols.SetHTTP1(protocol == "HTTP/1.1")
				protocols.SetHTTP2(protocol != "HTTP/1.1")
				transport := &http.Transport{TLSClientConfig: o, Protocols: protocols}
				got := sendSecurely(t, transport, address, protocol, tt.token)
				transport.CloseIdleConnections()
				expect.Equal(t, got, tt.want, "%s", protocol)
			}
			c.stop()
			c.exit(exitFine)
			files, err := filepath.Glob(filepath.Join(dir, "*.et"))
			must(t, err)
			if tt.want != http.StatusOK {
				if len(files) > 0 {
					t.Errorf("there are files: %q", files)
				}
				return
			}
			expect.MustLen(t, files, 1, "there are files")
			f := tracetest.OpenFile(t, files[0])
			expect.Equal(t, f.Len(), 3+3, "entries of the file") // three spans, the root, the resource and the end
		})
	}
}

// sendSecurely sends a span, and returns the HTTP status. It returns 0 if there is no connection. For gRPC
// it translates the gRPC status to an HTTP status.
func sendSecurely(t *testing.T, tr *http.Transport, address, protocol, token string) int {
	t.Helper()
	// A resource with the service name "s", and a span of trace 1. The span id depends on the protocol.
	resource := "\n\x15\n\x13\n\x0cservice.name\x12\x03\n\x01s"
	span := "\n\x10" + strings.Repeat("\x01", 16) + "\x12\x08" + strings.Repeat(protocol[len(protocol)-1:], 8) + "*\x01a"
	holder := resource + "\x12" + string(rune(len(span)+2)) + "\x12" + string(rune(len(span))) + span
	body := "\n" + string(rune(len(holder))) + holder
	path, kind := "/v1/traces", "application/x-protobuf"
	if protocol == "gRPC" {
		path, kind = "/opentelemetry.proto.collector.trace.v1.TraceService/Export", "application/grpc"
		body = "\x00\x00\x00\x00" + string(rune(len(body))) + body
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+path, bytes.NewReader([]byte(body)))
	must(t, err)
	req.Header.Set("Content-Type", kind)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0
	}
	if protocol != "gRPC" {
		expect.Equal(t, resp.Proto, protocol, "resp.Proto")
		return resp.StatusCode
	}
	switch status := resp.Trailer.Get("Grpc-Status") + resp.Header.Get("Grpc-Status"); status {
	case "0":
		return http.StatusOK
	case "16":
		return http.StatusUnauthorized
	default:
		t.Errorf("the status of gRPC is %q", status)
		return 0
	}
}
