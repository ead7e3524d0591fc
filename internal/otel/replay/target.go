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

	"github.com/entrace-go/entrace/internal/file/env"
	"github.com/entrace-go/entrace/internal/otel/codec"
	"github.com/entrace-go/entrace/internal/text/quantity"
)

// signalNames are the names of the signals in variables. signalPaths are the paths that are added to an endpoint for
// both signals.
var (
	signalNames = [...]string{"TRACES", "LOGS"}
	signalPaths = [...]string{"/v1/traces", "/v1/logs"}
)

// defaultEndpoint is OpenTelemetry's default endpoint.
const defaultEndpoint = "http://localhost:4318"

// A Target holds the URLs to which OTLP is sent, and the settings for sending.
type Target struct {
	signals [2]destination
}

// A destination holds the URL and the settings for the requests of one signal.
type destination struct {
	url     string
	shown   string // url without the password
	headers http.Header
	timeout time.Duration // 0: no limit
	gzip    bool
	client  *http.Client
}

// NewTarget returns the target at endpoint. If endpoint is empty, OpenTelemetry's environment variables name it.
// These variables always decide the other settings. The parameter headers has additional headers, each NAME=VALUE.
func NewTarget(endpoint string, headers []string) (*Target, error) {
	t := new(Target)
	for s := range t.signals {
		if err := t.signals[s].set(codec.Signal(s), endpoint, headers); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// String returns the URLs for spans and for log records, without passwords.
func (t *Target) String() string {
	return t.signals[codec.Spans].shown + " and " + t.signals[codec.Logs].shown
}

// variable returns the name and the value of the environment variable for the signal s, or else of the variable for
// all signals.
func variable(s codec.Signal, name string) (variable, value string) {
	const prefix = "OTEL_EXPORTER_OTLP_"
	for _, variable := range []string{prefix + signalNames[s] + "_" + name, prefix + name} {
		if value, ok := env.Lookup(variable); ok {
			return variable, value
		}
	}
	return prefix + name, ""
}

func (d *destination) set(s codec.Signal, endpoint string, headers []string) (err error) {
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
			return fmt.Errorf("%s must have the form NAME=VALUE,NAME=VALUE", name) // without the value, which may be secret
		}
	}
	for _, pair := range headers {
		if key, value, ok := strings.Cut(pair, "="); !ok || !d.header(key, value) {
			return errors.New("--header must have the form NAME=VALUE")
		}
	}
	d.timeout = 10 * time.Second
	if name, value := variable(s, "TIMEOUT"); value != "" {
		d.timeout, err = quantity.ParseTime(value)
		if err != nil || d.timeout < 0 {
			return fmt.Errorf("%s=%q must be milliseconds or a duration such as 5s", name, value)
		}
	}
	switch name, value := variable(s, "COMPRESSION"); value {
	case "", "gzip":
		d.gzip = true
	case "none":
	default:
		return fmt.Errorf("%s=%q must be gzip or none", name, value)
	}
	d.client, err = client(s)
	return err
}

// header sets a header. It returns false if the name or the value is invalid.
func (d *destination) header(name, value string) bool {
	name = strings.TrimSpace(name)
	if name == "" || strings.ContainsAny(name, " \t\r\n:") || strings.ContainsAny(value, "\r\n\x00") {
		return false
	}
	d.headers.Set(name, value)
	return true
}

// urlOf returns the URL for requests of the signal s.
func urlOf(s codec.Signal, endpoint string) (*url.URL, error) {
	from, whole := "--endpoint", false
	if endpoint == "" {
		from, endpoint = variable(s, "ENDPOINT")
		if endpoint == "" {
			endpoint = defaultEndpoint
		}
		whole = strings.Contains(from, signalNames[s])
		if name, protocol := variable(s, "PROTOCOL"); protocol == "grpc" && endpoint != defaultEndpoint {
			return nil, fmt.Errorf("%s=grpc: replay sends over HTTP only; name an HTTP endpoint with --endpoint", name)
		}
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%s is %q: must be a URL such as http://localhost:4318", from, endpoint)
	}
	if whole {
		return u, nil
	}
	for _, path := range signalPaths { // the user may have copied an endpoint together with its path
		u.Path = strings.TrimSuffix(u.Path, path)
	}
	return u.JoinPath(signalPaths[s]), nil
}

// client returns an HTTP client with the certificates that the environment variables name.
func client(s codec.Signal) (*http.Client, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	c := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // so that another host does not get the headers
	}}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if name, file := variable(s, "CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: %s has no PEM certificate", name, file)
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
