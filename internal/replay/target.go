package replay

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/entrace-go/entrace/internal/env"
	"github.com/entrace-go/entrace/internal/quantity"
)

// A signal is the kind of a request: traces or logs.
type signal int

const (
	traces signal = iota
	logs
)

// The names of the signals in variables, and their paths behind an endpoint for both.
var (
	signalNames = [...]string{"TRACES", "LOGS"}
	signalPaths = [...]string{"/v1/traces", "/v1/logs"}
)

// defaultEndpoint is OpenTelemetry's.
const defaultEndpoint = "http://localhost:4318"

// A Target is where OTLP goes, and how.
type Target struct {
	signals [2]destination
}

// A destination is where the requests of a signal go.
type destination struct {
	url     string
	shown   string // url without a password
	headers http.Header
	timeout time.Duration // 0: none
	gzip    bool
	client  *http.Client
}

// NewTarget returns the target at endpoint, or, where that is empty, the one of
// OpenTelemetry's variables, which also say what else there is to say. Headers, as in
// NAME=VALUE, are added to theirs.
func NewTarget(endpoint string, headers []string) (*Target, error) {
	t := new(Target)
	for s := range t.signals {
		if err := t.signals[s].set(signal(s), endpoint, headers); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// String returns where spans and log records go, without a password.
func (t *Target) String() string { return t.signals[traces].shown + " and " + t.signals[logs].shown }

// variable returns the variable of a signal, or that of all signals.
func variable(s signal, name string) (variable, value string) {
	const prefix = "OTEL_EXPORTER_OTLP_"
	for _, variable := range []string{prefix + signalNames[s] + "_" + name, prefix + name} {
		if value, ok := env.Lookup(variable); ok {
			return variable, value
		}
	}
	return prefix + name, ""
}

func (d *destination) set(s signal, endpoint string, headers []string) (err error) {
	u, err := urlOf(s, endpoint)
	if err != nil {
		return err
	}
	d.url, d.shown = u.String(), u.Redacted()
	d.headers = make(http.Header)
	name, list := variable(s, "HEADERS")
	for pair := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil || !d.header(key, value) {
			return fmt.Errorf("%s must be a list such as NAME=VALUE,NAME=VALUE", name) // without what is secret
		}
	}
	for _, pair := range headers {
		if key, value, ok := strings.Cut(pair, "="); !ok || !d.header(key, value) {
			return errors.New("a header must be as in NAME=VALUE")
		}
	}
	d.timeout = 10 * time.Second
	if name, value := variable(s, "TIMEOUT"); value != "" {
		if d.timeout, err = quantity.ParseTime(value); err != nil || d.timeout < 0 {
			return fmt.Errorf("%s=%q is no time", name, value)
		}
	}
	switch name, value := variable(s, "COMPRESSION"); value {
	case "", "gzip":
		d.gzip = true
	case "none":
	default:
		return fmt.Errorf("%s=%q is neither gzip nor none", name, value)
	}
	d.client, err = client(s)
	return err
}

// header sets a header, and reports whether it can be one.
func (d *destination) header(name, value string) bool {
	name = strings.TrimSpace(name)
	if name == "" || strings.ContainsAny(name, " \t\r\n:") || strings.ContainsAny(value, "\r\n\x00") {
		return false
	}
	d.headers.Set(name, value)
	return true
}

// urlOf returns where the requests of a signal go.
func urlOf(s signal, endpoint string) (*url.URL, error) {
	from, whole := "--endpoint", false
	if endpoint == "" {
		if from, endpoint = variable(s, "ENDPOINT"); endpoint == "" {
			endpoint = defaultEndpoint
		}
		whole = strings.Contains(from, signalNames[s])
		if name, protocol := variable(s, "PROTOCOL"); protocol == "grpc" && endpoint != defaultEndpoint {
			return nil, fmt.Errorf("%s=grpc: what is sent goes over HTTP; --endpoint names where it can", name)
		}
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%s is %q, it must be a URL such as http://localhost:4318", from, endpoint)
	}
	if whole {
		return u, nil
	}
	for _, path := range signalPaths { // of one that was copied from elsewhere
		u.Path = strings.TrimSuffix(u.Path, path)
	}
	return u.JoinPath(signalPaths[s]), nil
}

// client returns one with the certificates that the variables name.
func client(s signal) (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	c := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // headers are for the endpoint alone
	}}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if name, file := variable(s, "CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: %s has no certificate", name, file)
		}
	}
	name, certificate := variable(s, "CLIENT_CERTIFICATE")
	if keyName, key := variable(s, "CLIENT_KEY"); certificate != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", name, keyName, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	transport.TLSClientConfig = config
	return c, nil
}
