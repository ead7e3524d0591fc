package listener

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// The limits for the size of a token, in bytes.
const (
	minToken = 16
	maxToken = 256
)

// ErrInsecure is returned for an address that other machines can reach, if clients need neither a token nor a
// client certificate. TLS alone is not enough.
var ErrInsecure = errors.New("other machines can reach this address: set a token, or require client certificates " +
	"(entrace receive: --token-env, or --client-ca with --tls-cert and --tls-key)")

// CheckToken returns an error if a token is too short or too long. An empty token is valid.
func CheckToken(token string) error {
	if n := len(token); n > 0 && n < minToken || n > maxToken {
		return fmt.Errorf("the token has %d bytes, expected %d to %d", n, minToken, maxToken)
	}
	return nil
}

// Check returns an error if a server must not listen at the address a: [ErrInsecure], or the error of [CheckToken].
func Check(a net.Addr, token string, c *tls.Config) error {
	if err := CheckToken(token); err != nil {
		return err
	}
	if token == "" && !RequiresCertificate(c) && !private(a) {
		return ErrInsecure
	}
	return nil
}

// Secure returns a copy of c, which may be nil, that requires TLS 1.3 or later.
func Secure(c *tls.Config) *tls.Config {
	if c == nil {
		c = &tls.Config{MinVersion: tls.VersionTLS13}
	}
	c = c.Clone()
	c.MinVersion = max(c.MinVersion, tls.VersionTLS13)
	return c
}

// RequiresCertificate reports whether every client needs a certificate from an authority in c.ClientCAs. c may be
// nil.
func RequiresCertificate(c *tls.Config) bool {
	return c != nil && c.ClientAuth == tls.RequireAndVerifyClientCert && c.ClientCAs != nil
}

// private reports whether only this machine can connect to a. For a unix socket, it reports whether only the owner
// of the socket can connect.
func private(a net.Addr) bool {
	if a, ok := a.(*net.UnixAddr); ok {
		fi, err := os.Lstat(a.Name)
		return err == nil && fi.Mode().Perm()&0o077 == 0
	}
	return Loopback(a)
}

// Loopback reports whether a is a TCP address of the loopback interface.
func Loopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// LocalHost reports whether the Host header s of a request is localhost, an address in 127.0.0.0/8, or [::1], with
// any port. This check prevents DNS rebinding, in which a web page uses a host name of its own that resolves to this
// machine: the request then has the page's host name.
func LocalHost(s string) bool {
	host := s
	if i := strings.LastIndexByte(s, ':'); i >= 0 && !strings.HasSuffix(s, "]") {
		if _, err := strconv.ParseUint(s[i+1:], 10, 16); err != nil {
			return false
		}
		host = s[:i]
	}
	if strings.EqualFold(host, "localhost") || host == "[::1]" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Is4() && addr.IsLoopback()
}

// AddressOf returns the address for which the limit per address counts a client. For IPv6 it returns the first half
// of the address, because one machine may use all addresses with the same half. For a unix socket, and for a loopback
// address if exemptLoopback is set, it returns the zero Prefix: these clients have no limit.
func AddressOf(a net.Addr, exemptLoopback bool) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip, _ := netip.AddrFromSlice(tcp.IP)
	ip = ip.Unmap()
	if exemptLoopback && ip.IsLoopback() {
		return netip.Prefix{}
	}
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	p, _ := ip.Prefix(bits) // the zero Prefix if ip is not valid
	return p
}
