// Package loopback recognizes addresses and hosts that only this machine can reach.
package loopback

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Addr reports whether a is a TCP address of the loopback interface.
func Addr(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// Host reports whether the Host header s of a request is localhost, an address in 127.0.0.0/8, or [::1],
// with any port. This detects DNS rebinding: a web page whose own name leads to this machine sends its
// own name as the host.
func Host(s string) bool {
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
