package remote

import (
	"fmt"
	"net"
	"net/url"
	"strings"
)

// An endpoint is an address to which a sender sends, or at which a receiver listens.
type endpoint struct {
	network string // tcp or unix
	address string // host:port, or a path
	secure  bool   // TLS
}

// defaultPort is the port of tcp and tls endpoints without a port.
const defaultPort = "6142"

// parseEndpoint parses tcp://host:port, tls://host:port or unix:///path. The port may be missing. host:port without
// a scheme means tcp.
func parseEndpoint(s string) (endpoint, error) {
	fail := func(text string, args ...any) (endpoint, error) {
		return endpoint{}, fmt.Errorf("endpoint %q: %w", s, fmt.Errorf(text, args...))
	}
	text := s
	if host, port, err := net.SplitHostPort(s); err == nil && !strings.Contains(host, "/") && !strings.Contains(port, "/") {
		text = "tcp://" + s // for example localhost:6142
	}
	u, err := url.Parse(text)
	if err != nil {
		return endpoint{}, fmt.Errorf("endpoint: %w", err)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" {
		return fail("must be tcp://host:port, tls://host:port or unix:///path")
	}
	switch strings.ToLower(u.Scheme) {
	case "tcp", "tls":
		if u.Path != "" && u.Path != "/" {
			return fail("unexpected path %q after the port", u.Path)
		}
		address := u.Host
		if u.Port() == "" {
			if address == "" || strings.HasSuffix(address, ":") {
				return fail("the port is missing")
			}
			address = net.JoinHostPort(u.Hostname(), defaultPort)
		}
		return endpoint{network: "tcp", address: address, secure: strings.EqualFold(u.Scheme, "tls")}, nil
	case "unix":
		if u.Host != "" || u.Path == "" {
			return fail("must be unix:///path, with three slashes")
		}
		return endpoint{network: "unix", address: u.Path}, nil
	}
	return fail("must be tcp://host:port, tls://host:port or unix:///path")
}
